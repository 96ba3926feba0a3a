"""Write tests/vectors/commitments.json: values that Python and Solidity must compute (docs/protocol.md, section 2).

The output is deterministic: the same sources give the same bytes. Bytes are 0x-hex strings, addresses are checksummed,
numbers are plain. `counts` has the number of entries of each list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from eth_account import Account
from eth_utils.address import to_checksum_address
from repops.opset import Dtype

from referee_py.attestation import Verdict, sign
from referee_py.commit import (
    Record,
    Tag,
    Tree,
    canonical,
    data_tree,
    empty,
    fold_descendants,
    tensor_hash,
)
from referee_py.game.judge import step_hash
from referee_py.jobs import commitment
from referee_py.program import SlotSource
from referee_py.program.structure import Kind, Operand, Structure, TensorType
from referee_py.program.terms import Terms

TARGET = Path(__file__).resolve().parent.parent / "tests/vectors/commitments.json"
TEST_KEY = bytes([0x11]) * 32
Entry = dict[str, Any]


def junk(*name: object) -> bytes:
    """Return 32 bytes that stand for any hash."""
    return hashlib.sha256(repr(name).encode()).digest()


def address(name: str) -> str:
    return str(to_checksum_address(junk("address", name)[:20]))


def trees() -> Iterator[Entry]:
    for tag in [tag for tag in Tag if tag >= Tag.DATA_TREE]:
        for count in (0, 1, 2, 3, 5, 8, 17):
            leaves = [junk("leaf", tag.name, count, k) for k in range(count)]
            tree = Tree(tag, leaves)
            indices = sorted({0, count // 2, max(count - 1, 0), (1 << tree.depth) - 1})
            levels = min(tree.depth, 4)
            children = tree.descendants(tree.depth, 0, levels)
            yield {
                "tag": int(tag),
                "leaves": leaves,
                "depth": tree.depth,
                "root": tree.root,
                "empty": empty(tag, 0),
                "paths": [{"index": k, "leaf": tree.node(0, k), "path": tree.path(k)} for k in indices],
                "fold": {"levels": levels, "children": children, "node": fold_descendants(tag, children)},
            }


def tensors() -> Iterator[Entry]:
    floats = np.arange(600, dtype=np.float32) / 7 - 40
    odd = np.array([0x7FC00001, 0xFFC00000, 0x7F800001, 0x7F800000, 0x80000000, 1], np.uint32)
    arrays = {
        "f32 of rank 0": np.float32(1.5).reshape(()),
        "f32 of odd size": floats[:15].reshape(3, 5),
        "f32 of exactly one leaf": floats[:256],
        "f32 of one element more": floats[:257],
        "f32 empty": floats[:0].reshape(0, 3),
        "f32 of rank 8": floats[:12].reshape(1, 2, 1, 3, 1, 2, 1, 1),
        "f32 with every kind of NaN": odd.view(np.float32),
        "i64": np.array([[0, -1], [2**63 - 1, -(2**63)]], np.int64),
        "i64 of rank 0": np.int64(7).reshape(()),
        "bool of 1024 bytes": np.arange(1024) % 3 == 0,
        "bool of 1025 bytes": np.arange(1025) % 3 == 0,
        "bool of 3 leaves": (np.arange(2500) % 7 < 2).reshape(50, 50),
    }
    codes = {"float32": Dtype.F32, "int64": Dtype.I64, "bool": Dtype.BOOL}
    for name, array in arrays.items():
        data = canonical(array).tobytes()
        yield {
            "name": name,
            "dtype": int(codes[array.dtype.name]),
            "dims": list(array.shape),
            "raw": array.tobytes(),
            "data": data,
            "dataRoot": data_tree(data).root,
            "hash": tensor_hash(array),
        }


def records() -> Iterator[Entry]:
    for nin, nout, log in ((0, 0, bytes(32)), (2, 1, bytes(32)), (1, 8, junk("log")), (255, 1, bytes(32))):
        inputs = tuple(junk("input", nin, k) for k in range(nin))
        outputs = tuple(junk("output", nout, k) for k in range(nout))
        record = Record(junk("structure", nin), inputs, outputs, log)
        yield {
            "structure": record.structure,
            "inputs": list(inputs),
            "outputs": list(outputs),
            "log": log,
            "encoding": record.encode(),
            "hash": record.hash(),
        }


def structures() -> Iterator[Entry]:
    def f32(*shape: int) -> TensorType:
        return TensorType(Dtype.F32, shape)

    source = (Operand(Kind.NODE, 0, 0), Operand(Kind.NODE, 3, 1), Operand(Kind.SLOT, 70000))
    rows = [
        Structure.make("add", [Operand(Kind.SLOT, 1), Operand(Kind.CONSTANT, 2)], [f32(3, 5)]),
        Structure.make("neg", [Operand(Kind.NODE, 258, 1)], [f32()]),
        Structure.make("full", [], [f32(2)], shape=(2,), dtype=Dtype.F32, bits=0x7FC00000),
        Structure.make("sum", [Operand(Kind.NODE, 9)], [f32(1, 4)], dims=(0,), keepdim=1),
        Structure.make("cast", [Operand(Kind.STEP)], [f32()], dtype=Dtype.F32),
        Structure.make("cat", [source[k % 3] for k in range(255)], [f32(255, 2)], dim=0),
    ]
    for row in rows:
        operands = row.inputs
        yield {
            "op": row.op,
            "kinds": [int(o.kind) for o in operands],
            "indices": [o.index for o in operands],
            "outputs": [o.output for o in operands],
            "nout": len(row.outputs),
            "encoding": row.encode(),
            "hash": row.hash(),
        }


def programs() -> Iterator[Entry]:
    for name, strides, steps in (("plain", (1,), 1), ("deep", (1000, 100, 10, 1), 10**6 + 1)):
        roots = [junk(name, k) for k in range(4)]
        first, second, third, fourth = roots
        header = Terms(1, 1, 62, 12, 3, steps, first, second, third, fourth, strides)
        yield {
            "opsetVersion": header.opset,
            "mode": header.mode,
            "nodeCount": header.node_count,
            "slotCount": header.slot_count,
            "constantCount": header.constant_count,
            "steps": header.steps,
            "structureRoot": header.structure_root,
            "slotRoot": header.slot_root,
            "constantRoot": header.constant_root,
            "initialRoot": header.initial_root,
            "strides": list(header.strides),
            "hash": header.hash(),
        }


def slots() -> Iterator[Entry]:
    for node, output in ((0, 0), (61, 1), (2**24 - 1, 7)):
        yield {"node": node, "output": output, "hash": SlotSource(node, output).hash()}


def steps() -> Iterator[Entry]:
    for step in (1, 255, 256, 10**6, 2**53 - 1):
        yield {"step": step, "hash": step_hash(step)}


def commitments() -> Iterator[Entry]:
    for job_id in (1, 2**40):
        entry: Entry = {
            "chainId": 31337,
            "jobs": address("jobs"),
            "jobId": job_id,
            "sender": address("trainer"),
            "root": junk("root", job_id),
            "last": junk("last", job_id),
            "logs": junk("logs", job_id) if job_id > 1 else bytes(32),
            "salt": junk("salt", job_id),
        }
        chain_id, jobs, _, sender, root, last, logs, salt = entry.values()
        yield {**entry, "commitment": commitment(chain_id, jobs, job_id, sender, root, last, logs, salt)}


def verdicts() -> Iterator[Entry]:
    for hearing_id, step, node in ((1, 1, 0), (int.from_bytes(junk("match"), "big"), 10**6, 2**24 - 1)):
        verdict = Verdict(hearing_id, step, node, junk("record", step))
        panel = address("referee")
        yield {
            "chainId": 31337,
            "panel": panel,
            "hearingId": hearing_id.to_bytes(32, "big"),
            "step": step,
            "node": node,
            "record": verdict.record,
            "digest": verdict.digest(31337, panel),
            "key": TEST_KEY,
            "signer": str(Account.from_key(TEST_KEY).address),
            "signature": sign(verdict, 31337, panel, Account.from_key(TEST_KEY)),
        }


SECTIONS = (trees, tensors, records, structures, programs, slots, steps, commitments, verdicts)


def build() -> str:
    """Return the file's text."""
    content = {section.__name__: list(section()) for section in SECTIONS}
    counts = {name: len(entries) for name, entries in content.items()}
    return json.dumps({"counts": counts, **content}, indent=1, default=lambda b: "0x" + b.hex()) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(build())
