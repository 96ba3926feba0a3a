"""Certificates of runs: what they say is what the receipts say, in the layout of in-toto, and others can check it.

A statement is read and validated by in-toto's own library. NOTE: that has no envelopes, so their layout is checked
against the published one (DSSE 1), by the schema below, and the signature by another implementation of ECDSA.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_keys.datatypes import Signature
from google.protobuf import json_format

from referee_py.errors import InvalidEncoding, InvalidInput
from tests.conftest import Assay
from trainer_node.audit.certificate import NOT_PROVEN, OF_CHOICE, OF_RECEIPTS, Result, certify_run
from trainer_node.audit.coverage import Coverage, merge
from trainer_node.audit.engine import MAX_TIME
from trainer_node.audit.envelope import (
    CERTIFICATE_TYPE,
    STATEMENT_TYPE,
    compact,
    digest_of,
    envelope,
    numbers_of,
)
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt_file import Signed
from trainer_node.daemon.keys import create_key

from .in_toto import in_toto
from .runs import opened, publish, signed

ENVELOPE = {
    "type": "object",
    "required": ["payload", "payloadType", "signatures"],
    "properties": {
        "payload": {"type": "string"},
        "payloadType": {"const": "application/vnd.in-toto+json"},
        "signatures": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["sig"], "properties": {"sig": {"type": "string"}}},
        },
    },
}
"""The layout of https://github.com/secure-systems-lab/dsse/blob/master/envelope.md."""
AUDITORS = [Account.create(f"certificate {k}") for k in range(3)]
Told = Sequence[tuple[LocalAccount, int]]


def covered(folder: Path, match: Told, differ: Told = ()) -> tuple[PublishedRun, Coverage, Path]:
    """Return a run of six intervals of two steps, and what receipts say of it."""
    run, receipts = opened(publish(folder / "run", 12, 2), folder / "cache"), folder / "receipts"
    receipts.mkdir()
    for who, interval in match:
        signed(run, who, interval).write(receipts)
    for who, interval in differ:
        signed(run, who, interval, step=2 * interval, node=1, output=0, element=3).write(receipts)
    return run, merge(run, sorted(receipts.iterdir())), receipts


EACH: dict[str, tuple[Told, Told, Result, str]] = {
    "nothing": ((), (), Result.UNCHECKED, "not checked"),
    "some": ([(AUDITORS[0], 1), (AUDITORS[1], 1), (AUDITORS[0], 5)], (), Result.PARTLY, "2 of 6 intervals checked"),
    "all": ([(AUDITORS[0], k) for k in range(1, 7)], (), Result.CHECKED, "6 of 6 intervals checked"),
    "a lie": ([(AUDITORS[0], 1)], [(AUDITORS[1], 4)], Result.WRONG, "1 of 6 intervals found wrong"),
    "a contradiction": ([(AUDITORS[0], 4)], [(AUDITORS[1], 4)], Result.WRONG, "1 of 6 intervals found wrong"),
}  # fmt: skip


@pytest.mark.parametrize("name", EACH)
def test_it_says_what_the_receipts_say(tmp_path: Path, name: str) -> None:
    match, differ, result, summary = EACH[name]
    run, coverage, _ = covered(tmp_path, match, differ)
    found = certify_run(run, coverage)
    assert (found.result, found.summary) == (result, summary)
    told = json.loads(found.statement())
    assert in_toto(found.statement()) == told
    predicate: dict[str, Any] = told["predicate"]
    assert {subject["name"]: subject["digest"] for subject in told["subject"]} == {
        "run": {"assayRunRoot": run.claim.root},
        "last checkpoint": {"assayCheckpoint": run.claim.last},
        "program file": {"sha256": run.claim.program_file},
    }
    basis = {row["name"]: row["value"] for row in predicate["basis"]}
    assert basis["base model: root of the initial state (C0)"] == run.terms.initial_root.hex()
    assert basis["data: root of the constants"] == run.terms.constant_root.hex()
    steps, words = 2 * coverage.agreed, predicate["checked"][0]
    assert f"{coverage.agreed} of 6 intervals, which are {steps} of 12 steps" in words or not coverage.agreed
    assert words.startswith("None of the 6 intervals") == (coverage.agreed == 0)
    contradicted = [
        f"Interval {k}: receipts contradict each other. Replay it yourself." for k in coverage.contradictions
    ]
    assert {*contradicted} <= {*predicate["checked"]}
    counts = {row["name"]: int(row["value"].split()[0]) for row in predicate["by"]}
    assert sum(counts.values()) == len(match) + len(differ)
    assert len(predicate["evidence"]) == len(match) + len(differ)
    assert predicate["notProven"][0] == OF_RECEIPTS
    assert {*NOT_PROVEN} <= {*predicate["notProven"]}
    assert (OF_CHOICE in predicate["notProven"]) == (name in ("some", "a lie", "a contradiction"))
    chance = [words for words in predicate["checked"] if "have missed it" in words]
    assert len(chance) == (name == "some")
    assert all(
        "provided that they were drawn at random, and that each interval could" in words for words in chance
    )
    sentence = found.sentence()
    assert sentence.startswith(
        f"{summary}, as of {found.as_of}, for the run with root {run.claim.root}. It rests on "
    )
    assert sentence.count("SHA-256 ") == min(3, len(found.evidence))
    assert (f"; and {len(found.evidence) - 3} more, and lists" in sentence) == (len(found.evidence) > 3)
    unseen = 6 - len({k for _, k in (*match, *differ)})
    assert any(f"the other {unseen} intervals" in words for words in predicate["notProven"]) == (unseen > 0)
    for who, interval in differ:
        words = f"Interval {interval} is wrong, says {who.address}: step {2 * interval}, node 1, output 0, element 3."
        assert words in predicate["checked"]


def test_the_same_receipts_give_the_same_bytes(tmp_path: Path) -> None:
    run, coverage, receipts = covered(tmp_path, *EACH["a contradiction"][:2])
    other = [signed(run, AUDITORS[1], 4, step=7), signed(run, AUDITORS[1], 4, step=8, node=0)]
    for number, receipt in enumerate(other):
        (receipts / f"{number}.json").write_bytes(receipt.to_bytes())
    (receipts / "again.json").write_bytes(other[0].to_bytes())
    files = sorted(receipts.iterdir())
    told = {
        certify_run(run, merge(run, order)).statement() for order in itertools.permutations(files, len(files))
    }
    assert len(told) == 1
    found = json.loads(told.pop())["predicate"]
    assert len(found["evidence"]) == 4
    assert {row["name"]: row["value"] for row in found["by"]}[AUDITORS[1].address] == "3 receipts"
    assert coverage.files < merge(run, files).files


def test_a_badge_is_a_picture_with_words(tmp_path: Path) -> None:
    run, coverage, _ = covered(tmp_path, EACH["some"][0])
    svg = ElementTree.fromstring(certify_run(run, coverage).badge())
    words = "".join(svg.itertext())
    assert words == "assay: 2 of 6 intervals checkedassay2 of 6 intervals checked"
    assert not [tag for tag in svg.iter() if tag.tag.endswith(("script", "foreignObject", "image"))]


def test_the_command_writes_what_others_can_check(assay: Assay, tmp_path: Path) -> None:
    run, coverage, receipts = covered(tmp_path, EACH["some"][0])
    account = create_key(tmp_path / "key.json", "secret", work_factor=2)
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    flags = "--keystore", tmp_path / "key.json", "--password-file", tmp_path / "password"
    command = "run", "certificate", tmp_path / "run", "--receipts", receipts, "--out", tmp_path / "out"
    code, output, errors = assay(*command, *flags)
    assert code == 0, errors
    assert output.startswith("2 of 6 intervals checked; written to ")
    statement = (tmp_path / "out/certificate.json").read_bytes()
    assert statement == certify_run(run, coverage).statement()
    sealed = json.loads((tmp_path / "out/certificate.dsse.json").read_text())
    jsonschema.validate(sealed, ENVELOPE)
    payload = base64.b64decode(sealed["payload"])
    assert in_toto(payload)["predicateType"] == "urn:assay:certificate:1"
    assert payload == statement
    (signature,) = sealed["signatures"]
    r, s = numbers_of(base64.b64decode(signature["sig"]))
    # NOTE: DER has no recovery bit, so one of two keys is the signer's.
    tried = [Signature(vrs=(v, r, s)).recover_public_key_from_msg_hash(digest_of(payload)) for v in (0, 1)]
    assert signature["keyid"] in [key.to_checksum_address() for key in tried]
    assert signature["keyid"] == (account if isinstance(account, str) else account.address)
    assert assay(*command)[0] == 0
    assert (tmp_path / "out/certificate.json").read_bytes() == statement
    assert not (tmp_path / "out/certificate.dsse.json").exists(), "an envelope of another day"


def test_a_run_that_was_found_wrong_has_an_exit_code(assay: Assay, tmp_path: Path) -> None:
    _, _, receipts = covered(tmp_path, *EACH["a lie"][:2])
    (receipts / "junk.json").write_text("{}")
    command = "run", "certificate", tmp_path / "run", "--receipts", receipts, "--out", tmp_path / "out"
    code, output, _ = assay(*command)
    assert code == 1
    assert "does not count" in output
    code, output, _ = assay(*command, "--auditors", AUDITORS[0].address)
    assert (code, output.splitlines()[-1].split(";")[0]) == (0, "1 of 6 intervals checked")
    told = json.loads((tmp_path / "out/certificate.json").read_text())["predicate"]["notProven"]
    (left,) = [words for words in told if words.startswith("Anything of the receipts that were left out")]
    assert left.endswith("since only auditors that were named count: 1 receipt of 1 auditor.")


def test_without_receipts_it_says_so_and_takes_no_other_runs_place(assay: Assay, tmp_path: Path) -> None:
    covered(tmp_path, EACH["some"][0])
    code, output, _ = assay("run", "certificate", "run")
    assert (code, "no receipts were given: an audit with --keystore writes them" in output) == (
        0,
        True,
    )
    assert "not checked; written to certificate/certificate.json" in output
    before = (tmp_path / "certificate/certificate.json").read_bytes()
    publish(tmp_path / "other", 14, 2)
    code, _, errors = assay("run", "certificate", "other")
    assert (code, "is the certificate of another run; name another folder" in errors) == (2, True), errors
    assert (tmp_path / "certificate/certificate.json").read_bytes() == before
    assert assay("run", "certificate", "run")[0] == 0


def test_receipts_that_are_not_there_are_asked_of_an_audit(assay: Assay, tmp_path: Path) -> None:
    covered(tmp_path, EACH["some"][0])
    code, _, errors = assay("run", "certificate", "run", "--receipts", "everything/receipts")
    assert (code, "as an audit with --keystore KEY writes it" in errors) == (2, True), errors
    assert "error: everything/receipts does not exist; name receipts, or a folder of them" in errors
    (tmp_path / "everything").mkdir()
    code, output, _ = assay("run", "certificate", "run", "--receipts", "everything")
    assert (code, "no receipts were given: an audit with --keystore writes them" in output) == (0, True)


def test_too_many_receipts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_node.audit.certificate.MAX_EVIDENCE", 2)
    run, coverage, _ = covered(tmp_path, EACH["some"][0])
    with pytest.raises(InvalidInput, match="at most 2: name fewer"):
        certify_run(run, coverage)


def test_names_of_strangers_are_ascii_in_the_statement(tmp_path: Path) -> None:
    run, coverage, _ = covered(tmp_path, EACH["some"][0])
    run.claim = run.claim.model_copy(update={"name": "\u202e\u2028 \N{GREEK SMALL LETTER ALPHA}"})
    told = certify_run(run, coverage).statement()
    assert told.isascii()
    assert json.loads(told)["predicate"]["facts"][0]["value"] == run.claim.name


def test_a_receipt_of_a_time_without_a_date_is_refused(assay: Assay, tmp_path: Path) -> None:
    run, _, receipts = covered(tmp_path, EACH["some"][0])
    last = signed(run, AUDITORS[2], 6).receipt.model_copy(update={"time": MAX_TIME})
    beyond = last.model_copy(update={"time": MAX_TIME + 1})
    for number, receipt in enumerate((last, beyond)):
        (receipts / f"{number}.json").write_bytes(Signed.by(AUDITORS[2], receipt).to_bytes())
    code, output, errors = assay("audit", "verify", receipts)
    assert code == 1, errors
    assert output.count(": refused: ") == 1
    assert "1.json: refused: no receipt: predicate.receipt.time" in output
    found = merge(run, sorted(receipts.iterdir()))
    assert len(found.refused) == 1
    assert certify_run(run, found).as_of == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    "wrong",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"subject": [{"name": "run"}]},
        {"predicateType": ""},
        {"predicate": {}},
        {"sender": "nobody"},
    ],
)
def test_the_library_notices_what_is_no_statement(tmp_path: Path, wrong: dict[str, Any]) -> None:
    run, coverage, _ = covered(tmp_path, EACH["some"][0])
    told = json.loads(certify_run(run, coverage).statement())
    with pytest.raises((json_format.ParseError, ValueError)):
        in_toto(json.dumps(told | wrong).encode())


def test_the_badge_in_the_documentation_is_one_of_ours(tmp_path: Path) -> None:
    run, coverage, _ = covered(tmp_path, EACH["all"][0])
    shown = Path(__file__).parents[3] / "docs" / "pictures" / "badge.svg"
    assert certify_run(run, coverage).badge() == shown.read_text()


@pytest.mark.parametrize("sealed", [False, True])
def test_as_a_receipt_it_is_refused_with_what_shows_that_it_is_right(sealed: bool) -> None:
    statement = compact(
        {"_type": STATEMENT_TYPE, "predicateType": CERTIFICATE_TYPE, "subject": [], "predicate": {}}
    )
    data = envelope("0x" + "11" * 20, statement, b"\1") if sealed else statement
    with pytest.raises(InvalidEncoding, match=r"a certificate, and no receipt.*`assay run certificate`"):
        Signed.from_bytes(data)
