"""Any file that is not the one signed form of a receipt is refused, with a reason."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from referee_py.attestation import Verdict as PanelVerdict
from referee_py.attestation import sign as sign_verdict
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.audit import envelope as dsse
from trainer_node.audit import receipt_file
from trainer_node.audit.receipt import DOMAIN, TYPES, Receipt
from trainer_node.audit.receipt_file import MAX_BYTES, Signed

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

Change = Callable[[Any], object]


def _file(statement: Any, envelope: Change = lambda _: None, account: Any = None) -> bytes:
    """Return a file of a statement, sealed by an account, with a change of the envelope at the end."""
    payload = dsse.compact(statement) if isinstance(statement, dict) else statement
    account = account or Account.create()
    sealed = account.unsafe_sign_hash(dsse.digest_of(payload))
    sig = base64.b64encode(dsse.der(sealed.r, sealed.s)).decode()
    outer = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"keyid": account.address, "sig": sig}],
    }
    envelope(outer)
    return dsse.compact(outer) + b"\n"


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
        return dsse.compact(envelope) + b"\n"

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
    r, s = dsse.numbers_of(good.envelope_signature)
    return Signed(good.receipt, good.signature, dsse.der(r, _ORDER - s)).to_bytes()


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
        lambda good: Signed(good.receipt, good.signature, dsse.der(0, 0)).to_bytes(),
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
    "mode": (_changed(R + "mode", 4), "mode"),
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


def test_a_file_that_is_none_is_refused(good: Signed, tmp_path: Path) -> None:
    path = good.write(tmp_path)
    assert Signed.read(path) == good
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(InvalidInput, match="is not a file of at most"):
        Signed.read(path)
    for made in (Path("/dev/zero"), tmp_path):
        with pytest.raises((InvalidInput, OSError)):
            Signed.read(made)
