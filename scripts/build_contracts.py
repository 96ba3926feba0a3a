"""Compile contracts/ into package data, so that a daemon needs no compiler.

    referee_py/abi/<Name>.json             the standard build: foundry.toml's default profile
    referee_py/abi/portable/<Name>.json    the portable build: its profile portable, for chains without the opcode CLZ
    referee_py/abi/input/sources.json      what solc takes for each: all sources once, and settings and files of each

Each file holds {abi, bytecode, deployedBytecode, immutables, compiler, settingsHash, sourceHash}; ``immutables``: the
places of each in the deployed code, in the order in which the compiler numbers their declarations. The bytes depend
only on the sources, the libraries and the settings (foundry.toml). forge compiles the contracts, and its tests take the
same files from its cache: the tested code is the deployed code.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOLC = ROOT / "scripts/solc"
NATIVE_SOLC = ROOT / ".build/solc/native"  # scripts/solc prefers this one if it exists
FORGE = ROOT / ".venv/bin/forge"
DONE = ROOT / ".build/contracts.json"
ABI_DIR = ROOT / "referee_py/abi"
FOLDERS = {"default": ABI_DIR, "portable": ABI_DIR / "portable"}
"""Folders of the builds, by the profile of foundry.toml that each is made with."""
USES = {"default": "for networks of today", "portable": "for chains without the opcode CLZ"}
BUILDS = {"default": "standard", "portable": "portable"}
INPUT = ABI_DIR / "input/sources.json"
KEYS = {"abi", "bytecode", "compiler", "deployedBytecode", "immutables", "settingsHash", "sourceHash"}
CODE_SIZE_LIMIT = 24_576  # EIP-170


def forge_profile(name: str) -> dict[str, Any]:
    """Return a profile of foundry.toml, with what it takes from the default one."""
    profiles = tomllib.loads((ROOT / "foundry.toml").read_text())["profile"]
    return {**profiles["default"], **profiles[name]}


def compiler_settings(name: str = "default") -> dict[str, object]:
    """Return a profile of foundry.toml in the terms of solc's standard JSON."""
    profile = forge_profile(name)
    return {
        "remappings": profile["remappings"],
        "evmVersion": profile["evm_version"],
        "viaIR": profile["via_ir"],
        "optimizer": {"enabled": profile["optimizer"], "runs": profile["optimizer_runs"]},
        "metadata": {"bytecodeHash": profile["bytecode_hash"], "appendCBOR": profile["cbor_metadata"]},
    }


def hash_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def obtain_native_solc(version: str) -> None:
    """Fetch the native compiler by py-solc-x, once per tree. It is faster than solc-js, but optional."""
    if NATIVE_SOLC.parent.exists():
        return
    NATIVE_SOLC.parent.mkdir(parents=True)
    install = f"import solcx; solcx.install_solc('{version}'); print(solcx.get_executable('{version}'))"
    try:
        # In a separate process, because py-solc-x sets no time limit on its requests.
        command = [sys.executable, "-c", install]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except subprocess.SubprocessError:
        print("native solc cannot be fetched here: using solc-js, which takes several times as long")
        return
    NATIVE_SOLC.symlink_to(done.stdout.strip())


def deployable(sources: dict[str, str]) -> dict[str, str]:
    """Return the file of each contract with code of its own: no interface, library or abstract contract."""
    found: dict[str, str] = {}
    for path, text in sources.items():
        # forge fmt puts every declaration at the beginning of a line.
        for name in re.findall(r"^contract (\w+)", text, re.MULTILINE):
            if name in found:
                sys.exit(f"{path}: a second contract with the name {name}, after {found[name]}")
            found[name] = path
    return found


def artifacts(name: str) -> dict[tuple[str, str], dict]:
    """Return forge's output with a profile, by file and contract; its folders are named after the files only."""
    found = {}
    for path in (ROOT / forge_profile(name)["out"]).glob("**/*.json"):
        artifact = json.loads(path.read_text())
        for target in artifact.get("metadata", {}).get("settings", {}).get("compilationTarget", {}).items():
            found[target] = artifact
    return found


def is_ours(path: Path) -> bool:
    """Return whether this script has written a file. SAFETY: it removes no other."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and set(found) == KEYS


def contract_sources() -> dict[str, str]:
    paths = sorted(ROOT.glob("contracts/**/*.sol"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def hashes(sources: dict[str, str], name: str) -> tuple[str, str]:
    """Return the hashes of sources and of a profile's settings, on which the bytes depend."""
    # The lock file represents the sources of the libraries, and the compiler.
    return hash_of([sources, (ROOT / "package-lock.json").read_text()]), hash_of(compiler_settings(name))


def not_compiled() -> list[str]:
    """Return the contracts of which a file is missing, or was compiled from other sources or with other settings."""
    sources, missing = contract_sources(), set()
    for profile, folder in FOLDERS.items():
        current = hashes(sources, profile)
        for name in deployable(sources):
            path = folder / f"{name}.json"
            artifact = json.loads(path.read_text()) if path.exists() else {}
            if (artifact.get("sourceHash"), artifact.get("settingsHash")) != current:
                missing.add(name)
    found = json.loads(INPUT.read_text()) if INPUT.exists() else {}
    return sorted(missing if found.get("sourceHash") == hash_of(sources) else deployable(sources))


def main() -> None:
    sources = contract_sources()
    if not sources:
        return
    current = {profile: hashes(sources, profile) for profile in FOLDERS}
    done = json.loads(DONE.read_text()) if DONE.exists() else {}
    unchanged = done.get("hashes") == {profile: list(found) for profile, found in current.items()}
    if unchanged and INPUT.exists() and all((ROOT / name).exists() for name in done["files"]):
        return

    pinned = json.loads((ROOT / "package.json").read_text())["devDependencies"]["solc"]
    obtain_native_solc(pinned)
    said = subprocess.run([SOLC, "--version"], capture_output=True, text=True, check=True).stdout
    compiler = "".join(re.findall(r"\d+\.\d+\.\d+\+commit\.[0-9a-f]+", said))
    if not compiler.startswith(f"{pinned}+"):
        sys.exit(f"scripts/solc is {said!r}, package.json asks for {pinned}: make clean, then make setup")
    files, inputs = [INPUT.relative_to(ROOT).as_posix()], {}
    print(f"Compiling the contracts with solc {pinned}: one to ten minutes, warnings are usual.", flush=True)
    for profile, folder in FOLDERS.items():
        print(f"{folder.relative_to(ROOT)} ({USES[profile]}):", flush=True)
        contracts = compiled(profile, sources)
        inputs[BUILDS[profile]] = {name: input_of(contract) for name, contract in contracts.items()}
        files += [f"{folder.relative_to(ROOT).as_posix()}/{name}.json" for name in contracts]
        write(
            folder,
            contracts,
            dict(zip(("sourceHash", "settingsHash"), current[profile], strict=True)),
            compiler,
        )
    write_inputs(inputs, compiler, sources)
    DONE.write_text(json.dumps({"files": files, "hashes": current}))


def compiled(profile: str, sources: dict[str, str]) -> dict[str, dict]:
    """Compile with a profile, and return forge's output by contract."""
    # All contracts and nothing else: the compiler numbers its inputs and may order code by these numbers.
    command: list[str | Path] = [FORGE, "build", "--force", "contracts"]
    variables = os.environ | {"FOUNDRY_PROFILE": profile}
    if subprocess.run(command, cwd=ROOT, check=False, env=variables).returncode:
        sys.exit(f"the contracts do not compile with the profile {profile} of foundry.toml")
    output = artifacts(profile)
    return {name: output[path, name] for name, path in deployable(sources).items()}


def write(folder: Path, contracts: dict[str, dict], sums: dict[str, str], compiler: str) -> None:
    """Write the files of a build, and remove those of an earlier one. ``sums``: the hashes of what was compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.json"):
        if stale.stem not in contracts and is_ours(stale):
            stale.unlink()
    sizes = dict[str, int]()
    for name, contract in contracts.items():
        code, deployed = (contract[kind]["object"] for kind in ("bytecode", "deployedBytecode"))
        if not re.fullmatch("0x[0-9a-f]+", code):
            sys.exit(f"{name} needs a library linked in: make the library's functions internal")
        artifact = {
            "abi": contract["abi"],
            "bytecode": code,
            "compiler": compiler,
            "deployedBytecode": deployed,
            "immutables": immutables(contract),
            **sums,
        }
        (folder / f"{name}.json").write_text(json.dumps(artifact, indent=1, sort_keys=True) + "\n")
        size = sizes[name] = len(deployed) // 2 - 1
        if size > CODE_SIZE_LIMIT:
            raise SystemExit(
                f"{name} has {size:,} bytes, and no chain takes more than {CODE_SIZE_LIMIT:,}: split it"
            )
    largest = max(sizes, key=lambda name: sizes[name])
    print(
        f"{len(sizes)} contracts; the largest, {largest}, has {sizes[largest]:,} of {CODE_SIZE_LIMIT:,} bytes"
    )


def immutables(contract: dict) -> list[list[int]]:
    """Return the places of each immutable, in bytes of the deployed code."""
    references = contract["deployedBytecode"].get("immutableReferences", {})
    numbered = sorted((int(number), places) for number, places in references.items())
    return [sorted(place["start"] for place in places) for _, places in numbered]


def input_of(contract: dict) -> dict[str, Any]:
    """Return settings and files of a contract, in the terms of solc's standard JSON: these alone give its bytes."""
    settings = dict(contract["metadata"]["settings"])
    ((file, _),) = settings.pop("compilationTarget").items()
    return {"file": file, "settings": settings, "sources": sorted(contract["metadata"]["sources"])}


def write_inputs(builds: dict[str, dict[str, Any]], compiler: str, sources: dict[str, str]) -> None:
    """Write what solc takes for each contract of each build."""
    used = sorted(
        {path for build in builds.values() for found in build.values() for path in found["sources"]}
    )
    text = {path: (ROOT / path).read_text() for path in used}
    content = {"builds": builds, "compiler": compiler, "sourceHash": hash_of(sources), "sources": text}
    INPUT.parent.mkdir(parents=True, exist_ok=True)
    INPUT.write_text(json.dumps(content, sort_keys=True) + "\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; `make setup` continues with the contracts")
