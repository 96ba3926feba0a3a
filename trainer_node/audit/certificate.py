"""Certificates: what was checked of a run or a job, by whom and how much, against which model and data; and what that
does not prove. As an in-toto Statement, in words, and as a badge.

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "run", "digest": {"assayRunRoot": <root>}}, ...],
     "predicateType": "urn:assay:certificate:1",
     "predicate": {"result", "summary", "facts", "basis", "checked", "by", "notProven", "evidence", "asOf"}}

INVARIANT: a certificate follows from its evidence alone: the same receipts, or the same block of a chain, give the same
bytes. So anybody can make it again, and whoever signs one says no more than that he has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from referee_py.errors import InvalidInput
from referee_py.program import Program
from referee_py.program.describe import Names
from referee_py.program.modes import mode_or_unknown
from referee_py.program.terms import Terms

from ..local.provenance import Provenance, owners_of
from ..storage.untrusted_file import read_plain, write_plain
from .coverage import Coverage
from .engine import MAX_TIME
from .envelope import CERTIFICATE_TYPE, STATEMENT_TYPE, envelope, seal
from .published import PublishedRun

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from ..chain import JobView

MAX_EVIDENCE = 10_000
"""Receipts that a certificate lists; there is none of more."""
MAX_TENSORS = 256
"""Names of tensors that a certificate lists."""
STATEMENT, SEALED = "certificate.json", "certificate.dsse.json"
MAX_STATEMENT_BYTES = 64 << 20
MAX_TOLD = 3
"""Pieces of evidence that a sentence names."""
Row = tuple[str, str]
NO_NAMES = Names()

NOT_PROVEN = (
    "Where the initial state comes from, and whether the data are what they are called or may be used: hashes name "
    "bytes, and no origin.",
    "Whether the model is good for anything, or safe. Checked is that these steps were computed as the program says.",
    "Losses and other metrics, and names of tensors: publishers add them, and no root commits to them.",
)
OF_RECEIPTS = (
    "A receipt is the word of the owner of a key. It does not show that he has replayed anything, nor that two keys "
    "belong to two people, or to others than the trainer."
)
OF_CHOICE = (
    "Who chose the intervals, and how: no receipt says so. Auditors that choose their own, or let the trainer choose, "
    "prove less than a draw that nobody could foresee."
)


class Result(StrEnum):
    """The result in one word."""

    CHECKED = "checked"
    PARTLY = "partly checked"
    UNCHECKED = "not checked"
    WRONG = "found wrong"
    ACCEPTED = "accepted"


COLOURS = {
    Result.CHECKED: "#0b6b43",
    Result.ACCEPTED: "#0b6b43",
    Result.PARTLY: "#1f55a8",
    Result.UNCHECKED: "#55575e",
    Result.WRONG: "#b3201a",
}


@dataclass(frozen=True)
class Certificate:
    """A certificate in words. ``basis``: base model and data, by their hashes; ``by``: accounts, and what each says;
    ``evidence``: SHA-256 of receipts, or the place on a chain; ``as_of``: the time of the newest of it."""

    result: Result
    summary: str
    subject: tuple[tuple[str, str, str], ...]
    """Names of things, kinds of digests and digests."""
    facts: tuple[Row, ...]
    basis: tuple[Row, ...]
    checked: tuple[str, ...]
    by: tuple[Row, ...]
    not_proven: tuple[str, ...]
    evidence: tuple[Row, ...]
    as_of: str

    def statement(self) -> bytes:
        """Return the JSON of the in-toto Statement."""
        told: dict[str, Any] = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {kind: digest}} for name, kind, digest in self.subject],
            "predicateType": CERTIFICATE_TYPE,
            "predicate": {
                "result": self.result.value,
                "summary": self.summary,
                "facts": _rows(self.facts),
                "basis": _rows(self.basis),
                "checked": list(self.checked),
                "by": _rows(self.by),
                "notProven": list(self.not_proven),
                "evidence": _rows(self.evidence),
                "asOf": self.as_of,
            },
        }
        return json.dumps(told, indent=1).encode() + b"\n"

    def sentence(self) -> str:
        """Return what it says, in a sentence for a model card: the result, what it rests on, and its limits."""
        (_, _, root), *_ = self.subject
        rests = "; ".join(f"{name} {value}" for name, value in self.evidence[:MAX_TOLD])
        more = len(self.evidence) - MAX_TOLD
        others = f"; and {more} more" if more > 0 else ""
        return (
            f"{self.summary}, as of {self.as_of}, for the run with root {root}. It rests on "
            f"{rests or 'nothing'}{others}, and lists {len(self.not_proven)} things that it does not prove."
        )

    def badge(self) -> str:
        """Return an SVG for a README: the result, and how much it rests on."""
        left, right = "assay", self.summary
        widths = [round(7.1 * len(text)) + 20 for text in (left, right)]
        texts = "".join(
            f'<text x="{at}" y="14.5" text-anchor="middle">{escape(text)}</text>'
            for text, at in ((left, widths[0] / 2), (right, widths[0] + widths[1] / 2))
        )
        full = sum(widths)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="21" role="img" aria-labelledby="t">'
            f'<title id="t">{escape(f"{left}: {right}")}</title>'
            f'<rect width="{full}" height="21" rx="4" fill="#1b1c1f"/>'
            f'<path d="M{widths[0]} 0h{widths[1] - 4}a4 4 0 0 1 4 4v13a4 4 0 0 1-4 4H{widths[0]}z" '
            f'fill="{COLOURS[self.result]}"/>'
            f'<g fill="#fff" font-family="DejaVu Sans,Verdana,sans-serif" font-size="11">{texts}</g></svg>\n'
        )

    def write(self, folder: Path, account: LocalAccount | None) -> list[Path]:
        """Write statement, badge and, with an account, the statement in an envelope that it signs; return the files.

        INVARIANT: no envelope of another statement stays beside them. Raises InvalidInput where a certificate of
        another run lies.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if _subject_in(folder / STATEMENT) not in (None, json.loads(self.statement())["subject"]):
            raise InvalidInput(
                f"{folder / STATEMENT} is the certificate of another run; name another folder with --out"
            )
        (folder / SEALED).unlink(missing_ok=True)
        files = {STATEMENT: self.statement(), "badge.svg": self.badge().encode()}
        if account is not None:
            payload = self.statement()
            files[SEALED] = envelope(account.address, payload, seal(account, payload))
        for name, data in files.items():
            write_plain(folder / name, data)
        return [folder / name for name in files]


def _subject_in(path: Path) -> object:
    """Return the subject of a certificate's file; None if there is no such file, or it is none."""
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        return from_json(read_plain(path, MAX_STATEMENT_BYTES))["subject"]
    except (OSError, InvalidInput, ValueError, KeyError, TypeError):
        return None


def _rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in rows]


def certify_run(run: PublishedRun, coverage: Coverage, names: Names = NO_NAMES) -> Certificate:
    """Return the certificate of a published run by the receipts about it. ``names``: labels of its program.

    Raises InvalidInput for more receipts than a certificate lists.
    """
    if len(coverage.files) > MAX_EVIDENCE:
        raise InvalidInput(
            f"{len(coverage.files)} receipts; a certificate lists at most {MAX_EVIDENCE}: name fewer with --auditors"
        )
    claim, count, agreed = run.claim, run.count, coverage.agreed
    wrong = sorted({*coverage.different, *coverage.contradictions})
    if wrong:
        result, summary = Result.WRONG, f"{len(wrong)} of {count} intervals found wrong"
    elif not agreed:
        result, summary = Result.UNCHECKED, "not checked"
    else:
        result = Result.CHECKED if agreed == count else Result.PARTLY
        summary = f"{agreed} of {count} intervals checked"
    steps = sum(run.span(k)[1] - run.span(k)[0] for k, said in coverage.intervals.items() if said.agreed)
    unseen = count - len(coverage.intervals)
    checked = [
        f"{agreed} of {count} intervals, which are {steps:,} of {claim.steps:,} steps: each was replayed from the "
        "run's own state before it, and led to the run's checkpoint after it. So say the auditors below."
        if agreed
        else f"None of the {count} intervals: no auditor says that one is right, and none that it is wrong."
        if not wrong
        else f"None of the {count} intervals is found right by all who have checked it."
    ]
    checked += [
        f"Interval {k}: receipts contradict each other. Replay it yourself." for k in coverage.contradictions
    ]
    checked += [f"Interval {k} is wrong, says {auditor}: {_place(receipt)}." for k in wrong[:100]
                for auditor, receipt in sorted(coverage.intervals[k].differ.items())]  # fmt: skip
    if agreed and not wrong and agreed < count:
        checked.append(
            f"If one interval were wrong, all of these would have missed it with a chance of "
            f"{coverage.chances()[0][1]:.3g}, provided that they were drawn at random, and that each interval could be "
            "checked: whoever withholds the data of one keeps it out of every draw."
        )
    not_proven = [OF_RECEIPTS, *([OF_CHOICE] if coverage.files and unseen else [])]
    if coverage.left_out:
        not_proven.append(
            "Anything of the receipts that were left out, since only auditors that were named count: "
            f"{_count(len(coverage.left_out), 'receipt')} of {_count(len(coverage.strangers), 'auditor')}."
        )
    if unseen:
        not_proven.append(f"Anything about the other {unseen} intervals, which nobody says to have replayed.")
    by: Counter[str] = Counter(auditor for _, auditor, _ in coverage.files)
    return Certificate(
        result,
        summary,
        _subject(claim.root, claim.program_file, claim.last),
        (("name", claim.name), *_facts(run.terms)),
        _basis(run.program, run.terms, claim.logs, names),
        tuple(checked),
        tuple((auditor, _count(number, "receipt")) for auditor, number in sorted(by.items())),
        (*not_proven, *NOT_PROVEN),
        tuple(
            (f"receipt about interval {k} by {who}, SHA-256", digest)
            for k, who, digest in sorted(coverage.files)
        ),
        _time(coverage.newest),
    )


def certify_job(
    job: JobView, known: Provenance, program: Program | None, at: Row, instant: int, names: Names = NO_NAMES
) -> Certificate:
    """Return the certificate of an accepted job. ``known``: its provenance; ``at``: the place of the evidence, such as
    a block with its hash, and ``instant`` its time. ``program``: of the job, if it is here. Raises InvalidInput."""
    if not job.phase.ended or not any(job.accepted_root):
        raise InvalidInput(
            f"job {job.id} has no accepted result to certify; its phase is {job.phase.name.lower()}: see "
            f"`assay job show {job.id}`"
        )
    owners = owners_of(job)
    return Certificate(
        Result.ACCEPTED,
        f"job {job.id}: accepted, {_count(len(owners), 'claim')}",
        _subject(job.accepted_root.hex(), job.program_file.hex(), job.accepted_last.hex()),
        tuple((name, value) for name, value in known.facts),
        _basis(program, job.program, job.logs.hex(), names),
        tuple(known.checked),
        tuple((owner, "claims this root, with a stake that it has not lost") for owner in owners),
        (*known.unknown, *NOT_PROVEN),
        (at,),
        _time(instant),
    )


def _subject(root: str, program_file: str, last: str) -> tuple[tuple[str, str, str], ...]:
    return (
        ("run", "assayRunRoot", root),
        ("last checkpoint", "assayCheckpoint", last),
        ("program file", "sha256", program_file),
    )


def _facts(terms: Terms) -> tuple[Row, ...]:
    return (
        ("steps", str(terms.steps)),
        ("operators of a step", str(terms.node_count)),
        ("arithmetic", mode_or_unknown(terms.mode).name),
        ("strides", ", ".join(map(str, terms.strides))),
        ("program hash", terms.hash().hex()),
    )


def _basis(program: Program | None, terms: Terms, logs: str, names: Names) -> tuple[Row, ...]:
    """Return base model and data: their roots, and the tensors below them, if the program is here."""
    rows = [("base model: root of the initial state (C0)", terms.initial_root.hex()),
            ("data: root of the constants", terms.constant_root.hex())]  # fmt: skip
    if terms.arithmetic.follows_logs:
        rows.append(("root of the rounding logs", logs))
    if program is None:
        return tuple(rows)
    kinds = ("base model", program.initial, names.slots), ("data", program.constants, names.constants)
    for what, tensors, known in kinds:
        for k, tensor in enumerate(tensors[:MAX_TENSORS]):
            called = known[k] if known else str(k)
            rows.append((f"{what}: tensor {called[:120]}", f"{tensor.type} {tensor.hash.hex()}"))
        if len(tensors) > MAX_TENSORS:
            rows.append((f"{what}: tensors not listed", str(len(tensors) - MAX_TENSORS)))
    return tuple(rows)


def _place(receipt: Any) -> str:
    known = ((what, getattr(receipt, what)) for what in ("step", "node", "output", "element"))
    return (
        ", ".join(f"{what} {number}" for what, number in known if number >= 0) or "another checkpoint follows"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _time(instant: int) -> str:
    if instant > MAX_TIME:
        raise InvalidInput(
            f"the evidence is of the time {instant}, beyond the year 9999; ask another endpoint"
        )
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if instant else "no evidence"
