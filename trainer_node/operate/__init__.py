"""Commands for those who run a node: none of them is part of a daemon.

quickstart      a folder to start from
deploy          deploys the contracts
standard_json   files with which explorers verify their sources
doctor          checks a machine
backup          a copy of a data directory, and a directory from it
"""
