"""Receipts: what an auditor says about one interval, as EIP-712 typed data that his key signs.

A receipt shows that the owner of a key says so. It does not show that he has replayed anything.
"""

from __future__ import annotations

from typing import Annotated, Literal

from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import is_checksum_address
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from referee_py.attestation import digest_of, recover_address
from referee_py.errors import InvalidEncoding
from referee_py.program.modes import mode_of

from .engine import MAX_TIME, IntervalReport
from .interval import Verdict
from .published import PublishedRun

FORMAT = 1
DOMAIN = {"name": "Assay Audit", "version": "1"}
"""INVARIANT: no verdict of a verifier is a receipt, since its domain has another name, a chain and a contract."""
UNKNOWN = -1

_FIELDS = {
    **{"format": "uint32", "auditor": "address", "program": "bytes32", "root": "bytes32", "logs": "bytes32"},
    **{"interval": "uint64", "start": "uint64", "end": "uint64", "before": "bytes32", "after": "bytes32"},
    **{"verdict": "string", "step": "int64", "node": "int64", "output": "int64", "element": "int64"},
    **{"mode": "uint8", "device": "string", "kernels": "bytes32", "time": "uint64"},
}
TYPES = {"Receipt": [{"name": name, "type": kind} for name, kind in _FIELDS.items()]}


def _checksummed(text: str) -> str:
    if not is_checksum_address(text):
        raise ValueError("is not an address with its checksum")
    return text


def _known_mode(mode: int) -> int:
    try:
        mode_of(mode)
    except Exception as error:
        raise ValueError(str(error)) from error
    return mode


Address = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{40}$"), AfterValidator(_checksummed)]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Number = Annotated[int, Field(ge=0, lt=1 << 48)]
_Place = Annotated[int, Field(ge=UNKNOWN, lt=1 << 48)]


class Receipt(BaseModel):
    """A statement about the interval `(start, end]` of a run, by the key of ``auditor``. Raises ValidationError.

    program, root, logs  hash of the terms and the program; run root; root of the rounding logs, which a replay follows
    before, after  the checkpoints C_(k-1) and C_k of the claim. C_0 is the root of the initial state, in the terms
    step ... element  where the two runs part, as far as it is known; `UNKNOWN` otherwise, and in a MATCH
    mode, device, kernels  the arithmetic, and what computed it (`receipt_kernels`)
    time           seconds since 1970, by the auditor's clock
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: int = Field(ge=FORMAT, le=FORMAT)
    auditor: Address
    program: Hash
    root: Hash
    logs: Hash
    interval: _Number
    start: _Number
    end: _Number
    before: Hash
    after: Hash
    verdict: Literal["MATCH", "DIFFERS"]
    step: _Place
    node: _Place
    output: _Place
    element: _Place
    mode: Annotated[int, AfterValidator(_known_mode)]
    device: Literal["cpu", "cuda"]
    kernels: Hash
    time: Annotated[int, Field(gt=0, le=MAX_TIME)]

    @model_validator(mode="after")
    def _consistent(self) -> Receipt:
        if not (0 <= self.start < self.end and (self.interval == 1) == (self.start == 0) and self.interval):
            raise ValueError(f"interval {self.interval} cannot be ({self.start}, {self.end}]")
        places = (self.step, self.node, self.output, self.element)
        known = [place != UNKNOWN for place in places]
        if self.verdict == Verdict.MATCH and any(known):
            raise ValueError("a MATCH has no place where the runs part")
        if known != sorted(known, reverse=True) or (known[0] and not self.start < self.step <= self.end):
            raise ValueError(f"step, node, output, element {places} are no place in its steps")
        return self

    def message(self) -> SignableMessage:
        """Return the EIP-712 message. NOTE: the domain has no chain: receipts are about runs, not about jobs."""
        fields = self.model_dump()
        for name, kind in _FIELDS.items():
            if kind == "bytes32":
                fields[name] = bytes.fromhex(fields[name])
        return encode_typed_data(domain_data=DOMAIN, message_types=TYPES, message_data=fields)


def receipt_of(run: PublishedRun, report: IntervalReport, auditor: str) -> Receipt | None:
    """Return what an auditor says by a report about this run; None for what he could not check."""
    found = report.finding
    if found.verdict is Verdict.UNCHECKED:
        return None
    places = {name: getattr(found, name) for name in ("step", "node", "output", "element")}
    fields: dict[str, str | int] = {
        "format": FORMAT,
        "auditor": auditor,
        "verdict": found.verdict.value,
        "device": report.device,
        "kernels": report.kernels,
        "time": report.time,
        **_of_run(run, found.interval),
        **{name: UNKNOWN if place is None else place for name, place in places.items()},
    }
    return Receipt.model_validate(fields)


def difference(receipt: Receipt, run: PublishedRun) -> str | None:
    """Return in words why a receipt is not about an interval of this run; None if it is."""
    if receipt.root != run.claim.root:
        return f"it is about the run with root {receipt.root}, not {run.claim.root}"
    if receipt.interval > run.count:
        return f"it is about interval {receipt.interval}; the run has {run.count}"
    for name, wanted in _of_run(run, receipt.interval).items():
        if getattr(receipt, name) != wanted:
            return f"its {name} is {getattr(receipt, name)}, that of the run's interval {wanted}"
    return None


def sign(receipt: Receipt, account: LocalAccount) -> bytes:
    """Return the 65-byte signature ``r ‖ s ‖ v`` of the typed data."""
    return bytes(account.sign_message(receipt.message()).signature)


def check_signature(receipt: Receipt, signature: bytes) -> None:
    """Raise InvalidEncoding unless the auditor's key has signed this receipt, in the one form of a signature."""
    signer = recover_address(digest_of(receipt.message()), signature)
    if signer != receipt.auditor:
        raise InvalidEncoding(f"its signature is of other data or another key than {receipt.auditor}'s")


def _of_run(run: PublishedRun, interval: int) -> dict[str, str | int]:
    start, end = run.span(interval)
    before = run.tree.leaves[interval - 2] if interval > 1 else run.terms.initial_root
    return {
        "program": run.claim.program_hash,
        "root": run.claim.root,
        "logs": run.logs.hex(),
        "interval": interval,
        "start": start,
        "end": end,
        "before": before.hex(),
        "after": run.tree.leaves[interval - 1].hex(),
        "mode": run.terms.mode,
    }
