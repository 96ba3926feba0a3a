"""The documentation site: pages of docs/, and a reference that is generated from the code. Run by `make docs`."""
