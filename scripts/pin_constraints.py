"""Turn pip's resolution report (standard input) into constraints.txt (standard output)."""

import json
import re
import sys

HEADER = "# What `make setup` installs, at the versions it was tested with. Written by `make constraints`."


def main() -> None:
    pins = set()
    for item in json.load(sys.stdin)["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        # A local tag such as +cpu names one index's build; the constraint must fit other builds too.
        version = item["metadata"]["version"].partition("+")[0]
        pins.add(f"{name}=={version}")
    pins = {pin for pin in pins if not pin.startswith("assay-referee==")}
    print("\n".join([HEADER, *sorted(pins)]))


if __name__ == "__main__":
    main()
