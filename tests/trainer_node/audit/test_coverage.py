"""Receipts of many auditors, merged: counted by key, contradictions first, and the chance of a miss is the true one."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
from eth_account import Account

from referee_py.errors import InvalidInput
from tests.conftest import Assay
from trainer_node.audit.coverage import files_in, merge
from trainer_node.audit.published import PublishedRun

from .runs import opened, publish, signed, write_all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("run") / "run", 48, 4)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> PublishedRun:
    """Twelve intervals of four steps."""
    return opened(folder, tmp_path / "cache")


def test_what_is_told_is_what_was_said(run: PublishedRun, tmp_path: Path) -> None:
    """A random history of auditors, told by the coverage and by a plain count."""
    accounts = [Account.create() for _ in range(4)]
    said = {(a, k): random.choice(["", "match", "match", "differ"]) for a in range(4) for k in range(1, 13)}
    for (a, k), word in said.items():
        if word:
            places = {"step": run.span(k)[1]} if word == "differ" else {}
            write_all([signed(run, accounts[a], k, **places)], tmp_path / f"of-{a}")
    found = merge(run, files_in(sorted(tmp_path.glob("of-*"))))
    words = {k: [said[a, k] for a in range(4)] for k in range(1, 13)}
    assert found.contradictions == [k for k, w in words.items() if "match" in w and "differ" in w]
    assert found.different == [k for k, w in words.items() if "differ" in w and "match" not in w]
    right = {k: w.count("match") for k, w in words.items() if "match" in w and "differ" not in w}
    assert found.agreed == len(right)
    spread = {k: n for first, last, n in found.spans() for k in range(first, last + 1)}
    assert spread == {k: right.get(k, 0) for k in range(1, 13)}
    assert not found.refused
    assert not found.strangers


def test_one_key_counts_once_and_contradicts_itself(run: PublishedRun, tmp_path: Path) -> None:
    one, two = Account.create(), Account.create()
    for name in ("a", "b"):
        write_all([signed(run, one, 1)], tmp_path / name)
    write_all([signed(run, one, 2)], tmp_path / "a")
    write_all([signed(run, one, 2, step=run.span(2)[1]), signed(run, two, 3, step=9)], tmp_path / "b")
    found = merge(run, files_in([tmp_path / "a", tmp_path / "b", tmp_path / "a"]))
    assert found.intervals[1].auditors == 1
    assert (found.contradictions, found.different, found.intervals[2].auditors) == ([2], [3], 0)


def test_the_chance_is_the_share_of_places_that_were_not_checked(run: PublishedRun, tmp_path: Path) -> None:
    """All places of the wrong intervals are counted, one by one."""
    checked = set(random.sample(range(1, 13), random.randint(1, 11)))
    write_all([signed(run, Account.create(), k) for k in checked], tmp_path / "all")
    for lies, chance in merge(run, files_in([tmp_path / "all"])).chances():
        places = list(itertools.combinations(range(1, 13), lies))
        outside = sum(not checked & set(place) for place in places)
        assert chance == pytest.approx(float(Fraction(outside, len(places))), rel=1e-12, abs=1e-15)


def test_everything_checked_leaves_no_chance(run: PublishedRun, tmp_path: Path) -> None:
    write_all([signed(run, Account.create(), k) for k in range(1, 13)], tmp_path / "all")
    assert merge(run, files_in([tmp_path / "all"])).chances() == [(1, 0.0)]
    assert merge(run, []).chances() == [(1, 1.0), (2, 1.0), (5, 1.0), (10, 1.0)]


def test_others_receipts_and_hostile_files_count_nothing(run: PublishedRun, tmp_path: Path) -> None:
    account = Account.create()
    other = opened(publish(tmp_path / "other", 48, 4), tmp_path / "other-cache")
    place = write_all([signed(run, account, 1), signed(other, account, 1)], tmp_path / "mixed")
    (place / "brackets.json").write_bytes(b"[" * 8000)
    (place / "long.json").write_bytes(b"x" * 100_000)
    (place / "endless.json").symlink_to("/dev/zero")
    (place / "folder.json").mkdir()
    found = merge(run, files_in([place]))
    assert {k: said.auditors for k, said in found.intervals.items()} == {1: 1}
    assert len(found.refused) == 5
    with pytest.raises(InvalidInput, match="does not exist"):
        files_in([tmp_path / "nowhere"])


def test_only_auditors_that_are_named_count(run: PublishedRun, tmp_path: Path) -> None:
    known, liar = Account.create(), Account.create()
    place = write_all(
        [signed(run, known, 1), signed(run, liar, 1, step=2), signed(run, liar, 5)], tmp_path / "r"
    )
    found = merge(run, files_in([place]), frozenset({known.address}))
    assert (found.agreed, found.contradictions, found.strangers) == (1, [], {liar.address})


# ---------------------------------------------------------------------- as commands


@pytest.fixture
def key(assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a key at ./key.json; return its address."""
    monkeypatch.setenv("ASSAY_PASSWORD", "long and random")
    code, output, errors = assay("key", "new", "--light", "--keystore", "key.json")
    assert code == 0, errors
    return output.split()[0]


def test_an_audit_with_a_key_leaves_receipts(assay: Assay, key: str, folder: Path, tmp_path: Path) -> None:
    code, output, errors = assay("audit", folder, "--intervals", "2-4", "--out", "mine")
    assert (code, "receipts" in output) == (0, False), errors
    assert not (tmp_path / "mine" / "receipts").exists()
    code, output, errors = assay(
        "audit", "--keystore", "key.json", folder, "--intervals", "3-6", "--out", "mine"
    )
    assert (code, "2 were checked before" in output, "4 in mine/receipts" in output) == (0, True, True), (
        errors
    )
    files = sorted((tmp_path / "mine" / "receipts").iterdir())
    before = [file.read_bytes() for file in files]
    assert (
        assay("audit", "check", folder, "--keystore", "key.json", "--intervals", "3-6", "--out", "mine")[0]
        == 0
    )
    assert [file.read_bytes() for file in files] == before
    assert {file.suffix for file in files} == {".json"}
    code, output, errors = assay("audit", "verify", "mine/receipts", "--run", folder, "--json")
    told = json.loads(output)["receipts"]
    assert (code, [row["receipt"]["interval"] for row in told]) == (0, [3, 4, 5, 6]), errors
    assert all(row["receipt"]["auditor"] == key and row["same_kernels"] for row in told)
    code, output, _ = assay(
        "audit", "coverage", folder, "--receipts", "mine/receipts", "--auditors", key, "--json"
    )
    found = json.loads(output)
    assert (code, found["agreed"], found["missed"][0]) == (
        0,
        4,
        {"wrong": 1, "chance": pytest.approx(8 / 12)},
    )


def test_a_lie_is_in_the_receipt_and_first_in_the_coverage(assay: Assay, key: str, tmp_path: Path) -> None:
    lying = publish(tmp_path / "lying", 40, 1, lie=17)
    code, output, errors = assay("audit", "lying", "--keystore", "key.json", "--intervals", "all")
    assert (code, "40 in audit-lying/receipts" in output) == (1, True), errors
    run = opened(lying, tmp_path / "cache")
    write_all([signed(run, Account.create(), 17), signed(run, Account.create(), 18)], tmp_path / "others")
    code, output, _ = assay(
        "audit", "coverage", "lying", "--receipts", "audit-lying/receipts", "--receipts", "others"
    )
    lines = output.splitlines()
    assert code == 1
    assert lines[1] == "auditors contradict each other about interval 17"
    assert f"  DIFFERS  {key}, step 17" in output
    assert "  interval 18: 2 auditors" in lines
    assert "may belong to one person" in output
    code, output, _ = assay(
        "audit", "verify", *sorted((tmp_path / "audit-lying/receipts").glob("*-000017-*"))
    )
    assert (code, "DIFFERS, step 17, node 0" in output) == (0, True), output


def test_verify_says_what_a_receipt_proves_and_refuses(
    assay: Assay, run: PublishedRun, tmp_path: Path
) -> None:
    place = write_all([signed(run, Account.create(), 1)], tmp_path / "r")
    code, output, _ = assay("audit", "verify", place)
    assert (code, "It does not prove that he has replayed anything" in output) == (0, True)
    assert "is not checked: add --run" in output
    assert assay("audit", "verify", place, "--root", run.claim.root)[0] == 0
    code, output, _ = assay("audit", "verify", place, "--root", "ab" * 32)
    assert (code, "refused: it is about the run with root" in output) == (1, True)
    (place / "x\x1b[31m.json").write_bytes(b"{}")
    code, output, _ = assay("audit", "verify", place)
    assert (code, "\x1b" in output, "refused: no receipt: payload" in output) == (1, False, True), output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "run", "--password-file", "x"), "add --keystore"),
        (("audit", "run", "--keystore", "none.json"), "there is no key at"),
        (("audit", "run", "--engine", "ray"), "--address"),
        (("audit", "run", "--address", "local"), "--address"),
        (("audit", "run", "--device", "tpu"), "choose cpu or cuda"),
        (("audit", "coverage", "run", "--auditors", "0x12"), "is not an address"),
        (("audit", "coverage", "run"), "as an audit with --keystore KEY writes it"),
        (("audit", "verify", "none.json"), "does not exist"),
        (("audit", "verify", "none.json", "--root", "12"), "is not a hash"),
    ],
)
def test_wrong_flags_are_one_line_of_error(assay: Assay, arguments: tuple[str, ...], words: str) -> None:
    code, _, errors = assay(*arguments)
    assert (code, words in errors, "Traceback" in errors) == (2, True, False), errors


def test_help_and_completion_know_the_commands_and_the_options(
    assay: Assay, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output, _ = assay("audit", "--help")
    assert code == 0
    assert all(word in output for word in ("check", "verify", "coverage", "assay audit RUN"))
    code, output, _ = assay("audit", "check", "--help")
    assert (code, "--intervals" in output) == (0, True)
    monkeypatch.setenv("_ASSAY_COMPLETE", "complete_bash")
    for words, expected in (
        ("assay audit ", {"check", "verify", "coverage"}),
        ("assay audit --det", {"--detect"}),
        ("assay audit run --keys", {"--keystore"}),
        ("assay audit coverage --aud", {"--auditors"}),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        assert expected <= set(assay()[1].split()), words
