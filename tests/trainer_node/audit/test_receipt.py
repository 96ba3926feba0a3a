"""A receipt is one signed form of what an auditor says, and any other file is refused, with a reason."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.datatypes import PrivateKey

from referee_py.attestation import Verdict as PanelVerdict
from referee_py.attestation import sign as sign_verdict
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.audit import receipt_file
from trainer_node.audit.engine import Report
from trainer_node.audit.interval import Auditor, Finding, Verdict, computes
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt import DOMAIN, TYPES, Receipt, difference, receipt_of
from trainer_node.audit.receipt_file import MAX_BYTES, Signed
from trainer_node.audit.receipt_kernels import kernel_digest

from .runs import opened, publish, signed

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PublishedRun:
    """Six intervals of five steps, the last one short; step 13 lies."""
    folder = tmp_path_factory.mktemp("run")
    return opened(publish(folder / "run", 28, 5, lie=13), folder / "cache")


@pytest.fixture
def good(run: PublishedRun) -> Signed:
    return signed(run, Account.create(), random.randint(1, 6))


def test_what_is_replayed_is_what_is_signed(run: PublishedRun) -> None:
    account, auditor = Account.create(), Auditor(run, 1 << 30, computes(run.terms.mode))
    for interval in range(1, run.count + 1):
        finding = auditor.check(interval)
        receipt = receipt_of(run, Report.of(run, "cpu", finding), account.address)
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
    assert receipt_of(run, Report.of(run, "cpu", finding), Account.create().address) is None


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


# ---------------------------------------------------------------------- hostile files

Change = Callable[[Any], object]


def _file(statement: Any, envelope: Change = lambda _: None, account: Any = None) -> bytes:
    """Return a file of a statement, sealed by an account, with a change of the envelope at the end."""
    payload = receipt_file._json(statement) if isinstance(statement, dict) else statement
    account = account or Account.create()
    sealed = account.unsafe_sign_hash(receipt_file._digest(payload))
    sig = base64.b64encode(receipt_file._der(sealed.r, sealed.s)).decode()
    outer = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"keyid": account.address, "sig": sig}],
    }
    envelope(outer)
    return receipt_file._json(outer) + b"\n"


def _changed(path: str, value: object) -> Callable[[Signed], bytes]:
    """Set a place of the statement, and sign everything anew with a key that is the auditor's."""

    def change(good: Signed) -> bytes:
        account = Account.create()
        statement = json.loads(
            receipt_file._payload(good.receipt.model_copy(update={"auditor": account.address}), b"")
        )
        receipt = statement["predicate"]["receipt"]
        statement["predicate"]["signature"] = "11" * 65
        place: Any = statement
        *way, last = path.split("/")
        for name in way:
            place = place[int(name) if isinstance(place, list) else name]
        place[last] = value
        try:
            own = Signed.by(account, Receipt.model_validate(receipt))
            if "signature" not in path:
                statement["predicate"]["signature"] = own.signature.hex()
        except ValueError:
            pass
        return _file(statement, account=account)

    return change


def _without(name: str) -> Callable[[Signed], bytes]:
    def change(good: Signed) -> bytes:
        statement = json.loads(receipt_file._payload(good.receipt, good.signature))
        del statement["predicate"]["receipt"][name]
        return _file(statement)

    return change


def _enveloped(change: Change) -> Callable[[Signed], bytes]:
    def changed(good: Signed) -> bytes:
        envelope = json.loads(good.to_bytes())
        change(envelope)
        return receipt_file._json(envelope) + b"\n"

    return changed


def _signed_otherwise(sign: Callable[[Any, Receipt], bytes]) -> Callable[[Signed], bytes]:
    """The typed data signed by ``sign(account, receipt)``; the envelope is right."""

    def changed(good: Signed) -> bytes:
        account = Account.create()
        receipt = good.receipt.model_copy(update={"auditor": account.address})
        return _file(json.loads(receipt_file._payload(receipt, sign(account, receipt))), account=account)

    return changed


def _other_domain(**change: object) -> Callable[[Signed], bytes]:
    def sign(account: Any, receipt: Receipt) -> bytes:
        fields = receipt.model_dump()
        for field in TYPES["Receipt"]:
            if field["type"] == "bytes32":
                fields[field["name"]] = bytes.fromhex(fields[field["name"]])
        message = encode_typed_data(
            domain_data={**DOMAIN, **change}, message_types=TYPES, message_data=fields
        )
        return bytes(account.sign_message(message).signature)

    return _signed_otherwise(sign)


def _own(account: Any, receipt: Receipt) -> bytes:
    return bytes(account.sign_message(receipt.message()).signature)


def _high(account: Any, receipt: Receipt) -> bytes:
    own = _own(account, receipt)
    s = _ORDER - int.from_bytes(own[32:64], "big")
    return own[:32] + s.to_bytes(32, "big") + bytes([55 - own[64]])


def _high_der(good: Signed) -> bytes:
    r, s = receipt_file._numbers(good.envelope_signature)
    return Signed(good.receipt, good.signature, receipt_file._der(r, _ORDER - s)).to_bytes()


def _long_der(good: Signed) -> bytes:
    der = good.envelope_signature
    longer = bytes([0x30, der[1] + 1, 2, der[3] + 1, 0]) + der[4:]
    return Signed(good.receipt, good.signature, longer).to_bytes()


def _twice(good: Signed) -> bytes:
    """The key `verdict` twice in the payload: the first is read by some parsers, the last by others."""
    account = Account.create()
    receipt = good.receipt.model_copy(update={"auditor": account.address})
    payload = receipt_file._payload(receipt, _own(account, receipt))
    return _file(payload.replace(b'"verdict":', b'"verdict":"DIFFERS","verdict":'), account=account)


def _verdict(account: Any, receipt: Receipt) -> bytes:
    return sign_verdict(PanelVerdict(1, 2, 3, bytes(32)), 1, account.address, account)


R = "predicate/receipt/"
HOSTILE: dict[str, tuple[Callable[[Signed], bytes], str]] = {
    "empty": (lambda _: b"", "EOF"),
    "no JSON": (lambda _: b"\x80\x04\x95pickle", "expected value"),
    "a list": (lambda _: b"[]\n", "object|instance|dictionary"),
    "null": (lambda _: b"null", "object|instance|dictionary"),
    "too long": (lambda good: good.to_bytes() + b" " * MAX_BYTES, "more than"),
    "brackets": (lambda _: b"[" * MAX_BYTES, "recursion"),
    "braces": (lambda _: b'{"payload":' * 700, "recursion"),
    "brackets in the payload": (lambda _: _file(b"[" * 4000), "recursion"),
    "brackets in a field": (_changed(R + "time", [[[[]]]]), "time"),
    "truncated": (lambda good: good.to_bytes()[:-20], "EOF"),
    "trailing": (lambda good: good.to_bytes() + b"{}", "trailing"),
    "no line end": (lambda good: good.to_bytes()[:-1], "one form"),
    "spaces": (lambda good: good.to_bytes().replace(b":", b": "), "one form"),
    "byte order mark": (lambda good: b"\xef\xbb\xbf" + good.to_bytes(), "expected value"),
    "another order": (
        lambda good: json.dumps(dict(reversed(json.loads(good.to_bytes()).items()))).encode(),
        "one form",
    ),
    "envelope: field": (_enveloped(lambda e: e.update(more=1)), "more"),
    "envelope: no signature": (_enveloped(lambda e: e.update(signatures=[])), "signatures"),
    "envelope: two": (_enveloped(lambda e: e.update(signatures=e["signatures"] * 2)), "signatures"),
    "envelope: kind": (_enveloped(lambda e: e.update(payloadType="text/plain")), "payloadType"),
    "envelope: number": (_enveloped(lambda e: e.update(payload=7)), "payload"),
    "envelope: no base64": (_enveloped(lambda e: e.update(payload="é*")), "base64"),
    "envelope: padding": (_enveloped(lambda e: e.update(payload=e["payload"] + "====")), "base64|one form"),
    "envelope: signer": (
        _enveloped(lambda e: e["signatures"][0].update(keyid=Account.create().address)),
        "one form",
    ),
    "envelope: signer in lower case": (
        _enveloped(lambda e: e["signatures"][0].update(keyid=e["signatures"][0]["keyid"].lower())),
        "checksum",
    ),
    "envelope: other key": (
        lambda good: _file(json.loads(receipt_file._payload(good.receipt, good.signature))),
        "one form",
    ),
    "envelope: signature of nothing": (
        _enveloped(lambda e: e["signatures"][0].update(sig="AAAA")),
        "DER",
    ),
    "envelope: high s": (_high_der, "not canonical"),
    "envelope: long DER": (_long_der, "DER"),
    "envelope: zeros": (
        lambda good: Signed(good.receipt, good.signature, receipt_file._der(0, 0)).to_bytes(),
        "signature",
    ),
    "envelope: another's": (
        lambda good: Signed(
            good.receipt,
            good.signature,
            Signed.by(Account.create(), good.receipt).envelope_signature,
        ).to_bytes(),
        "another key",
    ),
    "statement: type": (_changed("_type", "https://in-toto.io/Statement/v0.1"), "_type"),
    "statement: predicate": (_changed("predicateType", "https://slsa.dev/provenance/v1"), "predicateType"),
    "statement: field": (_changed("comment", "x"), "comment"),
    "statement: subject": (_changed("subject/0/digest/assayRunRoot", "00" * 32), "one form"),
    "statement: two digests": (_changed("subject/0/digest/sha256", "00" * 32), "sha256"),
    "statement: no subject": (_changed("subject", []), "subject"),
    "a key twice": (_twice, "one form"),
    "field": (_changed(R + "note", "a"), "note"),
    "field of the predicate": (_changed("predicate/note", "a"), "note"),
    "no time": (_without("time"), "time"),
    "no root": (_without("root"), "root"),
    "format": (_changed(R + "format", 2), "format"),
    "format as text": (_changed(R + "format", "1"), "format"),
    "format as bool": (_changed(R + "format", True), "format"),
    "interval zero": (_changed(R + "interval", 0), "interval"),
    "interval as float": (_changed(R + "interval", 3.0), "interval"),
    "interval beyond": (_changed(R + "interval", 1 << 48), "interval"),
    "interval of 4000 digits": (
        lambda good: _file(
            receipt_file._payload(good.receipt, good.signature).replace(
                b'"interval":', b'"interval":' + b"9" * 4000
            )
        ),
        "interval|number",
    ),
    "empty interval": (_changed(R + "end", 0), "cannot be"),
    "negative start": (_changed(R + "start", -1), "start"),
    "verdict": (_changed(R + "verdict", "UNCHECKED"), "verdict"),
    "verdict in lower case": (_changed(R + "verdict", "match"), "verdict"),
    "a match with a place": (_changed(R + "step", 3), "MATCH"),
    "mode": (_changed(R + "mode", 3), "mode"),
    "device": (_changed(R + "device", "\x1b[31m"), "device"),
    "kernels": (_changed(R + "kernels", "ab"), "kernels"),
    "hash in capitals": (_changed(R + "program", "AB" * 32), "program"),
    "hash with a line end": (_changed(R + "program", "ab" * 32 + "\n"), "program"),
    "auditor without checksum": (_changed(R + "auditor", "0x" + "ab" * 20), "auditor"),
    "auditor is another": (_changed(R + "auditor", Account.create().address), "one form|signature"),
    "time zero": (_changed(R + "time", 0), "time"),
    "time infinite": (_changed(R + "time", float("inf")), "time|expected"),
    "signature short": (_changed("predicate/signature", "11" * 64), "signature"),
    "signature of noise": (_changed("predicate/signature", "11" * 65), "not canonical"),
    "signature of zeros": (_changed("predicate/signature", "00" * 64 + "1b"), "nobody"),
    "signature r too large": (_changed("predicate/signature", "ff" * 32 + "11" * 32 + "1b"), "nobody"),
    "high s": (_signed_otherwise(_high), "not canonical"),
    "v of 0 or 1": (
        _signed_otherwise(
            lambda account, receipt: (own := _own(account, receipt))[:64] + bytes([own[64] - 27])
        ),
        "not canonical",
    ),
    "v flipped": (
        _signed_otherwise(
            lambda account, receipt: (own := _own(account, receipt))[:64] + bytes([55 - own[64]])
        ),
        "another key|nobody",
    ),
    "another's signature": (
        _signed_otherwise(lambda _, receipt: _own(Account.create(), receipt)),
        "another key",
    ),
    "a signature of another receipt": (
        _signed_otherwise(
            lambda account, receipt: _own(account, receipt.model_copy(update={"time": receipt.time + 1}))
        ),
        "another key",
    ),
    "another domain": (_other_domain(name="Assay Panel"), "another key"),
    "another version": (_other_domain(version="2"), "another key"),
    "a domain of a chain": (_other_domain(chainId=1), "another key"),
    "a verdict": (_signed_otherwise(_verdict), "another key"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_with_its_reason(kind: str, good: Signed) -> None:
    make, reason = HOSTILE[kind]
    data = make(good)
    with pytest.raises(InvalidEncoding, match=reason) as caught:
        Signed.from_bytes(data)
    assert len(str(caught.value)) < 600


def test_the_table_changes_only_what_it_says(good: Signed) -> None:
    """Its ways of making files make good ones, if nothing is changed."""
    account = Account.create()
    receipt = good.receipt.model_copy(update={"auditor": account.address})
    assert Signed.from_bytes(_signed_otherwise(_own)(good))
    assert Signed.from_bytes(_changed(R + "time", good.receipt.time + 1)(good))
    assert Signed.from_bytes(_enveloped(lambda _: None)(good)) == good
    assert Signed.from_bytes(_other_domain()(good))
    assert Signed.from_bytes(Signed.by(account, receipt).to_bytes())


def test_no_change_of_a_byte_is_accepted(good: Signed) -> None:
    data = good.to_bytes()
    for place in random.sample(range(len(data)), 60):
        changed = bytearray(data)
        changed[place] ^= random.choice([1, 2, 4, 32, 128])
        with pytest.raises(InvalidEncoding):
            Signed.from_bytes(bytes(changed))


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


def test_a_file_that_is_none_is_refused(good: Signed, tmp_path: Path) -> None:
    path = good.write(tmp_path)
    assert Signed.read(path) == good
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(InvalidInput, match="is no file of at most"):
        Signed.read(path)
    for made in (Path("/dev/zero"), tmp_path):
        with pytest.raises((InvalidInput, OSError)):
            Signed.read(made)


def test_kernels_have_one_digest_for_each_arithmetic_and_device() -> None:
    digests = {kernel_digest(mode, device) for mode in (1, 2, 0x86) for device in ("cpu", "cuda")}
    assert len(digests) == 6
    assert kernel_digest(1, "cpu") in digests
