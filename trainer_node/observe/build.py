"""Identity of this build, without loading it: `assay --version` and the metric `build_info` tell it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "assay-referee"
FLAGS = Path("/proc/cpuinfo")
_ISAS = {"avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "avx2": {"avx2", "fma"}}
_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Build:
    """A build. ``source``: the commit of a clone, or a hash of a wheel; ``kernels``: the instruction set that they
    choose on this processor; ``contracts``: a hash over the code of all contracts that it was built with."""

    version: str
    source: str
    kernels: str
    contracts: str

    @classmethod
    @functools.cache
    def this(cls) -> Build:
        """Return the build of this process: as it was when it was first asked for."""
        found = metadata.distribution(DISTRIBUTION)
        return cls(found.version, _source(found), _kernels(), _contracts())


def _source(found: metadata.Distribution) -> str:
    """Return the commit of a clone, or a hash over the files of a wheel."""
    direct = json.loads(found.read_text("direct_url.json") or "{}")
    if direct.get("dir_info", {}).get("editable"):
        folder = unquote(urlsplit(direct["url"]).path)
        command = ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        except (OSError, subprocess.SubprocessError):
            return "a clone, at an unknown commit"
        return f"commit {told.stdout.strip()}"
    record = found.read_text("RECORD") or ""
    return f"wheel {hashlib.sha256(record.encode()).hexdigest()[:12]}"


def _kernels() -> str:
    """Return the instruction set that the kernels choose on this processor. NOTE: loading them takes a second."""
    if chosen := os.environ.get("REPOPS_ISA"):
        return f"{chosen[:20]} (REPOPS_ISA)"
    try:
        with FLAGS.open() as file:
            words = set(file.read(_BYTES).split())
    except OSError:
        return "unknown; see `assay doctor`"
    return next((isa for isa, needed in _ISAS.items() if needed <= words), "portable")


def _contracts() -> str:
    """Return a hash over the code of all contracts, in both builds."""
    total = hashlib.sha256()
    standard = resources.files("referee_py").joinpath("abi")
    for folder in (standard, standard.joinpath("portable")):
        files = [entry for entry in folder.iterdir() if entry.is_file()] if folder.is_dir() else []
        for entry in sorted(files, key=lambda entry: entry.name):
            total.update(entry.name.encode() + entry.read_bytes())
    return total.hexdigest()[:12]
