"""The shared vectors, checked by a second, naive implementation of docs/protocol.md: hashlib without `referee_py`."""

from __future__ import annotations

import json
import runpy
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from referee_py.attestation import Verdict, recover
from referee_py.commit import Record
from referee_py.errors import InvalidEncoding
from referee_py.program.structure import Structure

ROOT = Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "tests/vectors/commitments.json").read_text())


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def h(*parts: bytes) -> str:
    return "0x" + sha256(b"".join(parts)).hexdigest()


def root(tag: int, leaves: list[str]) -> str:
    """Return the root of a perfect tree, padded with E_0, folded level by level."""
    row = leaves or [h(bytes([8, tag]))]
    while len(row) & (len(row) - 1):
        row = [*row, h(bytes([8, tag]))]
    while len(row) > 1:
        row = [h(bytes([tag]), raw(row[i]), raw(row[i + 1])) for i in range(0, len(row), 2)]
    return row[0]


def entries(name: str) -> Any:
    return pytest.mark.parametrize("entry", VECTORS[name])


def test_file_is_what_the_script_writes() -> None:
    built = runpy.run_path(str(ROOT / "scripts/make_vectors.py"))["build"]()
    assert built == (ROOT / "tests/vectors/commitments.json").read_text(), "run scripts/make_vectors.py"


@entries("trees")
def test_trees(entry: dict[str, Any]) -> None:
    tag = entry["tag"]
    assert entry["root"] == root(tag, entry["leaves"])
    assert entry["empty"] == h(bytes([8, tag]))
    for proof in entry["paths"]:
        node = proof["leaf"]
        assert len(proof["path"]) == entry["depth"]
        for level, sibling in enumerate(proof["path"]):
            pair = (sibling, node) if proof["index"] >> level & 1 else (node, sibling)
            node = h(bytes([tag]), *map(raw, pair))
        assert node == entry["root"]
    assert root(tag, entry["fold"]["children"]) == entry["fold"]["node"]


@entries("tensors")
def test_tensors(entry: dict[str, Any]) -> None:
    data, dims = raw(entry["data"]), entry["dims"]
    words = [raw(entry["raw"])[i : i + 4] for i in range(0, len(raw(entry["raw"])), 4)]
    if entry["dtype"] == 1:
        canonical = b"".join(b"\0\0\xc0\x7f" if _is_nan(word) else word for word in words)
        assert data == canonical
    leaves = [h(b"\x01", data[i : i + 1024]) for i in range(0, len(data), 1024)]
    assert entry["dataRoot"] == root(0x10, leaves)
    head = bytes([entry["dtype"], len(dims)]) + b"".join(struct.pack(">Q", dim) for dim in dims)
    assert entry["hash"] == h(b"\x02", head, raw(entry["dataRoot"]))


def _is_nan(word: bytes) -> bool:
    bits = int.from_bytes(word, "little")
    return bits & 0x7FFFFFFF > 0x7F800000


@entries("records")
def test_records(entry: dict[str, Any]) -> None:
    hashes = b"".join(map(raw, entry["inputs"] + entry["outputs"]))
    counts = bytes([len(entry["inputs"]), len(entry["outputs"])])
    encoding = raw(entry["structure"]) + counts + hashes + raw(entry["log"])
    assert raw(entry["encoding"]) == encoding
    assert entry["hash"] == h(b"\x04", encoding)
    assert Record.decode(encoding).encode() == encoding


@entries("structures")
def test_structures(entry: dict[str, Any]) -> None:
    encoding = raw(entry["encoding"])
    operands = zip(entry["kinds"], entry["indices"], entry["outputs"], strict=True)
    head = struct.pack(">HBB", entry["op"], len(entry["kinds"]), entry["nout"])
    assert encoding.startswith(head + b"".join(struct.pack(">BIB", *operand) for operand in operands))
    assert entry["hash"] == h(b"\x03", encoding)
    assert Structure.decode(encoding).encode() == encoding


@entries("programs")
def test_programs(entry: dict[str, Any]) -> None:
    names = ("opsetVersion", "mode", "nodeCount", "slotCount", "constantCount", "steps")
    numbers = struct.pack(">IBIIIQ", *(entry[name] for name in names))
    roots = b"".join(raw(entry[f"{name}Root"]) for name in ("structure", "slot", "constant", "initial"))
    strides = bytes([len(entry["strides"])]) + b"".join(struct.pack(">Q", s) for s in entry["strides"])
    assert entry["hash"] == h(b"\x06", numbers, roots, strides)


@entries("slots")
def test_slots(entry: dict[str, Any]) -> None:
    assert entry["hash"] == h(b"\x05", struct.pack(">IB", entry["node"], entry["output"]))


@entries("steps")
def test_steps(entry: dict[str, Any]) -> None:
    leaf = h(b"\x01", struct.pack("<q", entry["step"]))
    assert entry["hash"] == h(b"\x02", bytes([2, 0]), raw(leaf))


@entries("commitments")
def test_commitments(entry: dict[str, Any]) -> None:
    where = (entry["chainId"].to_bytes(32, "big"), raw(entry["jobs"]), entry["jobId"].to_bytes(32, "big"))
    claim = (raw(entry[name]) for name in ("sender", "root", "last", "logs", "salt"))
    assert entry["commitment"] == h(b"\x07", *where, *claim)


@entries("verdicts")
def test_verdicts(entry: dict[str, Any]) -> None:
    hearing_id = int(entry["hearingId"], 16)
    verdict = Verdict(hearing_id, entry["step"], entry["node"], raw(entry["record"]))
    where = (entry["chainId"], entry["panel"])
    assert recover(verdict, *where, raw(entry["signature"])) == entry["signer"]
    assert entry["signer"] == Account.from_key(raw(entry["key"])).address
    other = Verdict(hearing_id + 1, entry["step"], entry["node"], raw(entry["record"]))
    assert recover(other, *where, raw(entry["signature"])) != entry["signer"]


@entries("verdicts")
def test_signature_in_another_form_expect_refusal(entry: dict[str, Any]) -> None:
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    verdict = Verdict(int(entry["hearingId"], 16), entry["step"], entry["node"], raw(entry["record"]))
    good = raw(entry["signature"])
    s = int.from_bytes(good[32:64], "big")
    mirrored = good[:32] + (order - s).to_bytes(32, "big") + bytes([55 - good[64]])
    for bad in (mirrored, good[:64], good + b"\0", good[:64] + bytes([good[64] - 27]), bytes(65)):
        with pytest.raises(InvalidEncoding):
            recover(verdict, entry["chainId"], entry["panel"], bad)
