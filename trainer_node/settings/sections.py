"""The sections of a node's settings: limits on strangers' data, jobs that are wanted, what is kept, and gas."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from eth_utils.address import is_checksum_address
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..chain.fees import ETHER, GWEI, FeeRule

DAY_S = 24 * 3600


def _address(value: str) -> str:
    if not is_checksum_address(value):
        raise ValueError("an address with its checksum is wanted, as explorers and `assay deploy` show it")
    return value


class Limits(BaseModel):
    """Bounds on data from other parties. Bytes and seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    artifact_bytes: int = Field(default=16 << 30, ge=1 << 10, le=1 << 44)
    memory_bytes: int = Field(default=16 << 30, ge=1 << 20)
    """Memory for a job's tensors and one step of it."""
    fetch_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    fetch_rate: float = Field(default=64 * 1024, gt=0)
    fetch_budget_s: float = Field(default=1800.0, gt=0)
    """Seconds of one attempt to fetch what a work needs; the shares of `waits` bound all attempts together."""
    peer_bytes: int = Field(default=1 << 28, ge=1 << 16)
    """Bytes per day that one server may send for one job without delivering what was asked."""
    peer_s: float = Field(default=600.0, gt=0)
    """Seconds per day that it may take for that."""
    store_bytes: int = Field(default=0, ge=0)
    """Disk space for all artifacts; 0 means no limit but the disk."""
    log_bytes: int = Field(default=16 << 30, ge=1 << 20)
    """Disk space for the rounding logs of one run."""
    exact_slowdown: float = Field(default=4.0, ge=1)
    """Factor by which later steps of a job in the modes exact and tc16 may take longer than the first one: time is kept
    for that. A client that chooses the data can make them some hundred times slower (log event `job.measured`)."""
    rpc_bytes: int = Field(default=32 << 20, ge=1 << 16, le=1 << 32)
    rpc_timeout_s: float = Field(default=10.0, gt=0, le=600)
    log_range: int = Field(default=10_000, ge=1)
    max_period_s: int = Field(default=30 * DAY_S, ge=1)
    """Longest period or clock of a job on which the node stakes or signs."""


def _hash(value: str) -> str:
    digits = value.removeprefix("0x")
    if len(digits) != 64 or any(digit not in "0123456789abcdef" for digit in digits):
        raise ValueError("a hash of 64 lower-case hex digits is wanted, as `assay program show` shows it")
    return digits


Address = Annotated[str, AfterValidator(_address)]


class Policy(BaseModel):
    """Jobs that the operator wants, and what the node pays for other parties."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    min_reward_eth: float = Field(default=0, ge=0, le=1e12)
    """For a trainer: the least share of a job's reward for one slot."""
    clients: tuple[Address, ...] = Field(default=(), max_length=1000)
    """Accounts whose jobs the node works on; none named: all."""
    programs: tuple[Annotated[str, AfterValidator(_hash)], ...] = Field(default=(), max_length=1000)
    """Program hashes that the node works on; none named: all."""
    max_open_jobs: int = Field(default=0, ge=0)
    """Jobs that may hold stakes or reserves of the node at the same time; 0 means no limit."""
    max_gas_loss_eth: float | None = Field(default=None, ge=0, le=1e12)
    """For a challenger: gas that it pays in one job for moves that win it nothing. Not set: nothing in the mode
    challenge, no limit in the mode defend, whose purpose that is."""
    node_price_eth: float = Field(default=-1, ge=-1, le=1e12)
    """For a challenger: what others must surely lose or pay to keep all of the node's time from other jobs, and in
    proportion for a part of it; 0 asks for nothing, -1 is 0 on a development chain, 0.5 elsewhere."""
    max_reserve_prizes: int = Field(default=-1, ge=-1, le=10**9)
    """For a challenger: the most ether that a stake may keep in reserve, in least prizes of its job; 0 means no limit,
    -1 is 0 on a development chain, 150 elsewhere."""

    @property
    def min_reward(self) -> int:
        """`min_reward_eth` in wei."""
        return int(self.min_reward_eth * ETHER)


class Keep(BaseModel):
    """Retention of a job that is over, in seconds from its end."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    work_s: float = Field(default=3600.0, ge=0)
    """States, trees, records, logs and the package."""
    result_s: float = Field(default=7.0 * DAY_S, ge=0)
    """The final state and what proves it, for the client."""
    every_s: float = Field(default=600.0, ge=1)
    """Seconds between two collections of what has had its time."""


def _webhook(value: str) -> str:
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("an address is wanted that begins with https:// or http://")
    return value


class Notify(BaseModel):
    """Messages to the operator when a job that concerns the node is disputed: JSON, to a webhook or a command."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: Annotated[str, Field(max_length=2048), AfterValidator(_webhook)] | None = None
    """Webhook that the message is posted to; none: no webhook."""
    command: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(default=(), max_length=64)
    """Program with its arguments that gets the message as its input; none: no command. No shell reads it."""
    timeout_s: float = Field(default=10.0, gt=0, le=60)
    """Longest time for one attempt at the webhook, and for the command, which is ended then."""


class Fees(BaseModel):
    """Limits and prices for gas."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    max_fee_gwei: float = Field(default=1000.0, gt=0, le=1e9)
    """SAFETY: above it nothing is sent, even if a stake is lost; so it must exceed gas prices at the worst times."""
    priority_fee_gwei: float = Field(default=1.0, ge=0, le=1e9)
    replace_after_s: float = Field(default=45.0, gt=0)
    expected_fee_gwei: float = Field(default=0.0, ge=0, le=1e9)
    """Gas price at which the prize of any claim must pay for a dispute; zero: the current price suffices."""
    patient_s: int = Field(default=-1, ge=-1, le=30 * DAY_S)
    """Seconds that actions without a clock wait for cheaper gas. 0 turns off all waiting, in disputes too; -1 is 0 on a
    development chain, a day elsewhere."""

    def policy(self) -> FeeRule:
        """Return cap and tip in wei."""
        return FeeRule(self.max_fee, int(self.priority_fee_gwei * GWEI))

    @property
    def max_fee(self) -> int:
        """`max_fee_gwei` in wei."""
        return int(self.max_fee_gwei * GWEI)

    @property
    def expected_fee(self) -> int:
        """`expected_fee_gwei` in wei."""
        return int(self.expected_fee_gwei * GWEI)
