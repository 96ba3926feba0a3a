"""Static analysis of contracts/ by slither: docs/security.md must answer every finding, and every answer must be used.

The ledger is the table below the heading "Findings of slither": detector, place, answer. A place is the contract and
function, or the file, that slither names first; a * in it stands for any part of the name. One row answers all findings
of its detector at its places.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from build_contracts import ROOT, SOLC, compiler_settings  # type: ignore[import-not-found]  # beside it

BUILD = ROOT / ".build/slither"
LEDGER = ROOT / "docs/security.md"
HEADING = "Findings of slither"
# No code: slither reads only the syntax tree, so a run takes seconds.
OUTPUTS = {"": ["ast"], "*": ["abi", "evm.methodIdentifiers"]}
NO_CODE = {"object": "", "sourceMap": ""}


def compile_trees() -> None:
    """Write slither's input: a forge build of all contracts except the replacements for older chains."""
    paths = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("contracts/**/*.sol"))]
    sources = {path: {"content": (ROOT / path).read_text()} for path in paths if "/portable/" not in path}
    settings = compiler_settings() | {"outputSelection": {"*": OUTPUTS}}
    request = {"language": "Solidity", "sources": sources, "settings": settings}
    command: list[str | Path] = [SOLC, "--standard-json", "--base-path", ROOT]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    output = json.loads(done.stdout)
    for error in output.get("errors", []):
        if error["severity"] == "error":
            sys.exit(error["formattedMessage"])
    for contracts in output["contracts"].values():
        for contract in contracts.values():
            contract["evm"] |= {"bytecode": NO_CODE, "deployedBytecode": NO_CODE}
    version = json.loads((ROOT / "package.json").read_text())["devDependencies"]["solc"]
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "contracts.json").write_text(
        json.dumps({"solcVersion": version, "input": request, "output": output})
    )


def findings() -> Counter[tuple[str, str]]:
    """Return how often each detector found something at each place."""
    report = BUILD / "report"
    report.unlink(missing_ok=True)
    command: list[str | Path] = [Path(sys.executable).with_name("slither"), ".", "--ignore-compile"]
    command += ["--foundry-build-info-directory", BUILD, "--filter-paths", "node_modules", "--json", report]
    # slither asks forge for the layout of the project.
    environment = os.environ | {"PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if not report.exists():
        sys.exit(f"slither has written no report:\n{done.stderr}")
    answer = json.loads(report.read_text())
    if not answer["success"]:
        sys.exit(f"slither: {answer['error']}")
    return Counter((one["check"], place_of(one)) for one in answer["results"].get("detectors", []))


def place_of(finding: dict) -> str:
    element = finding["elements"][0]
    parent = element.get("type_specific_fields", {}).get("parent", {})
    while element["type"] not in ("contract", "function", "pragma") and parent:
        element, parent = parent, parent.get("type_specific_fields", {}).get("parent", {})
    if element["type"] == "function" and parent:
        return f"{parent['name']}.{element['name']}"
    return (
        element["name"] if element["type"] == "contract" else element["source_mapping"]["filename_relative"]
    )


def answered() -> set[tuple[str, str]]:
    """Return the detector and place, a pattern, of each row of the ledger."""
    _, _, section = LEDGER.read_text().partition(f" {HEADING}\n")
    table = section.partition("\n#")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \| .+ \|$", table, re.MULTILINE)
    return {(detector, place) for detector, places in rows for place in re.findall(r"`([^`]+)`", places)}


def main() -> None:
    compile_trees()
    found, known = findings(), answered()
    used = {(check, pattern) for check, pattern in known for one in found if _answers((check, pattern), one)}
    open_ = [one for one in found if not any(_answers(answer, one) for answer in known)]
    print(f"slither: {found.total()} findings at {len(found)} places, {len(open_)} of them not answered")
    for detector, place in sorted(open_):
        print(f"not answered: {detector} in {place}")
    for detector, place in sorted(known - used):
        print(f"answered, but not found: {detector} in {place}")
    if open_ or known != used:
        sys.exit(
            f'fix the code, or mend the table "{HEADING}" in docs/security.md; .build/slither/report says more'
        )


def _answers(answer: tuple[str, str], finding: tuple[str, str]) -> bool:
    return answer[0] == finding[0] and fnmatchcase(finding[1], answer[1])


if __name__ == "__main__":
    main()
