"""A receipt is one signed form of what an auditor says about an interval of a run, and of no other run."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.datatypes import PrivateKey

from trainer_node.audit.engine import IntervalReport
from trainer_node.audit.interval import Auditor, Finding, Verdict, computes
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt import DOMAIN, TYPES, difference, receipt_of
from trainer_node.audit.receipt_file import Signed
from trainer_node.audit.receipt_kernels import kernel_digest

from .runs import signed


def test_what_is_replayed_is_what_is_signed(run: PublishedRun) -> None:
    account, auditor = Account.create(), Auditor(run, 1 << 30, computes(run.terms.mode))
    for interval in range(1, run.count + 1):
        finding = auditor.check(interval)
        receipt = receipt_of(run, IntervalReport.of(run, "cpu", finding), account.address)
        assert receipt is not None
        read = Signed.from_bytes(Signed.by(account, receipt).to_bytes())
        assert read.receipt == receipt
        assert difference(receipt, run) is None
        assert (receipt.start, receipt.end) == run.span(interval)
        assert receipt.verdict == ("DIFFERS" if interval == 3 else "MATCH")
        assert receipt.after == run.tree.leaves[interval - 1].hex()
        assert (
            receipt.before
            == (run.tree.leaves[interval - 2] if interval > 1 else run.terms.initial_root).hex()
        )
        if interval == 3:
            assert receipt.step in (-1, 13)


def test_what_was_not_checked_gives_no_receipt(run: PublishedRun) -> None:
    finding = Finding(2, *run.span(2), Verdict.UNCHECKED, "no bytes")
    assert receipt_of(run, IntervalReport.of(run, "cpu", finding), Account.create().address) is None


def test_the_same_statement_has_the_same_bytes(run: PublishedRun, good: Signed) -> None:
    account = Account.create()
    receipt = good.receipt.model_copy(update={"auditor": account.address})
    assert Signed.by(account, receipt).to_bytes() == Signed.by(account, receipt).to_bytes()


def test_the_parts_are_those_of_the_formats(good: Signed, tmp_path: Path) -> None:
    """The statement is read by its specification, and openssl checks the envelope's signature without our code."""
    envelope = json.loads(good.to_bytes())
    payload = base64.b64decode(envelope["payload"])
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "run", "digest": {"assayRunRoot": good.receipt.root}}]
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    account = Account.create()
    mine = Signed.by(account, good.receipt.model_copy(update={"auditor": account.address}))
    envelope = json.loads(mine.to_bytes())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    (tmp_path / "pae").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    point = b"\4" + PrivateKey(bytes(account.key)).public_key.to_bytes()
    prefix = bytes.fromhex(
        "3056301006072a8648ce3d020106052b8104000a034200"
    )  # SubjectPublicKeyInfo, secp256k1
    (tmp_path / "key").write_bytes(prefix + point)
    command = ["openssl", "dgst", "-sha256", "-verify", "key", "-keyform", "DER", "-signature", "sig", "pae"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "Verified OK" in done.stdout, done.stderr
    (tmp_path / "pae").write_bytes((tmp_path / "pae").read_bytes()[:-1] + b" ")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode != 0


def test_wallets_sign_the_same_typed_data(good: Signed) -> None:
    """The whole message, as a wallet gets it, hashes to what we sign."""
    fields = {
        name: "0x" + value if isinstance(value, str) and len(value) == 64 else value
        for name, value in good.receipt.model_dump().items()
    }
    domain_type = [{"name": "name", "type": "string"}, {"name": "version", "type": "string"}]
    full = {"types": {"EIP712Domain": domain_type, **TYPES}, "domain": DOMAIN, "primaryType": "Receipt"}
    message = encode_typed_data(full_message={**full, "message": fields})
    assert Account.recover_message(message, signature=good.signature) == good.receipt.auditor


@pytest.mark.parametrize(
    ("places", "right"),
    [
        ({"step": 11}, True),
        ({"step": 15, "node": 0}, True),
        ({"step": 13, "node": 1, "output": 0, "element": 3}, True),
        ({"step": 10}, False),
        ({"step": 16}, False),
        ({"node": 1}, False),
        ({"step": 13, "output": 0}, False),
        ({"step": 13, "node": 0, "element": 0}, False),
        ({"step": 13, "node": -2}, False),
    ],
)
def test_a_place_is_in_the_interval_and_whole(run: PublishedRun, places: dict[str, int], right: bool) -> None:
    if right:
        receipt = signed(run, Account.create(), 3, **places).receipt
        assert {name: getattr(receipt, name) for name in places} == places
        return
    with pytest.raises(ValueError):
        signed(run, Account.create(), 3, **places)


@pytest.mark.parametrize(
    "field", ["program", "root", "logs", "before", "after", "start", "end", "interval", "mode"]
)
def test_a_receipt_of_another_run_is_told_apart(run: PublishedRun, good: Signed, field: str) -> None:
    values = {
        "interval": run.count + 1,
        "start": good.receipt.start + 1,
        "end": good.receipt.end + 1,
        "mode": 2,
    }
    other = good.receipt.model_copy(
        update={field: values.get(field, hashlib.sha256(field.encode()).hexdigest())}
    )
    assert difference(good.receipt, run) is None
    assert difference(other, run) is not None


def test_kernels_have_one_digest_for_each_arithmetic_and_device() -> None:
    digests = {kernel_digest(mode, device) for mode in (1, 2, 0x86) for device in ("cpu", "cuda")}
    assert len(digests) == 6
    assert kernel_digest(1, "cpu") in digests
