"""Settings of a node: CLI flags, over environment variables ASSAY_*, over a TOML file, over defaults.

# assay.toml                                        ASSAY_CONFIG or --config names another file
rpc_url = "https://rpc.example.org"                 ASSAY_RPC_URL; several: ["https://a", "https://b"], "https://a,https://b"
chain_id = 11155111                                 ASSAY_CHAIN_ID
data_dir = "/var/lib/assay"
public_uri = "https://trainer.example.org"
[limits]
artifact_bytes = 17179869184                        ASSAY_LIMITS__ARTIFACT_BYTES
[fees]
max_fee_gwei = 1000
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from referee_py.errors import InvalidInput

from ..chain.counted_blocks import FINALITY_S, ChainRule, Finality, ViewRule
from ..chain.fees import ETHER
from ..errors import ConfigError
from ..network.uri import check_uri
from ..suggest import did_you_mean
from .config_file import FILE_VARIABLE, ReadSettings, config_file
from .extent import Mode
from .retired import RETIRED
from .sections import DAY_S, Address, Fees, Keep, Limits, Notify, Policy

MAX_TOLD = 5
"""Errors in settings that are told at once."""
MAIN_CHAIN_BLOCK_S = 12.0
PUBLIC_CONFIRMATIONS = 3
"""Blocks on top of one that counts, by default, except on development chains."""
OLD_BLOCKS, OLD_S = 20, 120.0
"""Time without a new block after which a chain's view is old: so many blocks, and so many seconds at least."""
MAX_ENDPOINTS = 16
MAX_WORKERS = 64
LOCAL_CHAINS = frozenset({1337, 31337})
"""Development chains: one node, no reorganisations, blocks only with transactions."""

NODE_PRICE_ETH, RESERVE_PRIZES = 0.5, 150
"""Defaults of `policy.node_price_eth` and `policy.max_reserve_prizes`, except on development chains."""

_PREFIX = "ASSAY_"


EVALUATORS = ("torch", "unfolded", "numpy")
EVALUATORS_GROUP = "assay.evaluators"
"""Entry points of further evaluators: each without arguments, under its name."""


def _listed(value: Any) -> Any:
    """Return the items of a list, or of a text with commas between them, as a flag or a variable gives it."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _rpc(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(urls) <= MAX_ENDPOINTS:
        raise ValueError(f"{len(urls)} endpoints; name 1 to {MAX_ENDPOINTS}")
    if not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError("only http:// and https:// endpoints are supported")
    if len(set(urls)) < len(urls):
        raise ValueError("an endpoint is named twice; it would agree with itself")
    return urls


def _uri(value: str) -> str:
    try:
        return check_uri(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


class Settings(ReadSettings):
    """All settings of a node. Read them with :func:`load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
    )

    rpc_url: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed), AfterValidator(_rpc)] = (
        "http://127.0.0.1:8545",
    )
    """JSON-RPC endpoints, the preferred one first."""
    agree: int = Field(default=0, ge=0, le=MAX_ENDPOINTS)
    """Number of endpoints that must show the same chain before money is staked on it; 0 is a majority."""
    chain_id: int = Field(default=31337, ge=1, lt=1 << 63)
    deployment: Path | None = None
    """Deployment file; `deployments/<chain id>.json` if not set."""
    releases: Address | None = None
    """Address of a publisher's list of releases, in place of a deployment file; `release` is the version on it."""
    release: str | None = Field(None, min_length=1, max_length=32)
    data_dir: Path = Path(".assay")
    keystore: Path | None = None
    """Encrypted key; `<data_dir>/key.json` if not set."""
    signer_url: Annotated[str, AfterValidator(_uri)] | None = None
    """Base URI of a remote signer (Web3Signer's interface), in place of a keystore."""
    signer_address: Address | None = None
    """Account that it signs for."""
    password_file: Path | None = None
    password: SecretStr | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, lt=1 << 16)
    """Port of the artifact server; 0 takes any free port."""
    public_uri: Annotated[str, AfterValidator(_uri)] | None = None
    """Base URI at which others reach the artifact server; its own address if not set."""
    confirmations: int = Field(-1, ge=-1, le=10_000)
    """Blocks on top of a block before its state counts; -1 means 0 on a development chain, 3 elsewhere."""
    finality: Finality = "confirmations"
    """Blocks that count: those with `confirmations` on top, or those with the chain's tag safe or finalized."""
    max_head_age_s: float = Field(-1, ge=-1, le=DAY_S)
    """Age of the chain's newest block above which nothing is staked; 0: no limit, -1 means 0 on a development chain,
    elsewhere 20 blocks and 2 minutes at least."""
    block_s: float = Field(-1, ge=-1, le=3600)
    """Seconds from a block to the next; -1 means 0 on a development chain, 12 elsewhere."""
    threads: int = Field(default=0, ge=0, le=4096)
    """Number of threads of the kernels, in each worker; 0 shares out all cores."""
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """Processes of this machine that compute a run together, the node included."""
    worker_backend: Literal["gloo"] = "gloo"
    """Mover of bytes between them, on any device."""
    worker_timeout_s: float = Field(default=120.0, ge=1, le=3600)
    """Seconds that a worker may let the node wait within a step; then the run continues without workers."""
    worker_checks: int = Field(default=1, ge=0, le=1000)
    """Nodes of other workers that the node computes once more in each committed step."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device for training. A verifier's single operators always run on the processor."""
    evaluator: str = "torch"
    """Evaluator for jobs of the mode rounded-f64: torch, unfolded, numpy, or another that is installed."""
    calibration: Path | None = None
    """Thresholds for a trainer's dense logs, from `assay calibrate`; the paper's fixed one if not set."""
    poll_s: float = Field(default=2.0, gt=0, le=3600)
    mode: Mode = Mode.WATCH
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    allow_probable_bounds: bool = False
    """Take rounded-f64 jobs with probable bounds. SAFETY: the author of the data can make an honest result wrong."""
    max_stake_eth: float = Field(default=0, ge=0, le=1e12)
    """Largest stake on one job; 0 means no limit."""
    max_watch_eth: float = Field(default=0, ge=0, le=1e12)
    """Largest stake of a challenger on watching one job for its bounty; 0 watches none."""
    check: str = Field(default="all", pattern=r"^(all|share|sample:(0?\.\d*[1-9]\d*|1))$")
    """Part of a job that a challenger checks: all of it; a share of its intervals, drawn in public, as large as the
    job's terms call for; or sample:P, the fraction P of them, drawn in secret."""
    samplers: int = Field(default=1, ge=1, le=10_000)
    """Number of honest challengers that check shares of a job, this one included: the more, the less each checks."""
    max_check_cpu_h: float = Field(default=0, ge=0, le=1e6)
    """Hours of processors for checking a part of each claimed root of a job, and for replaying the whole of it; 0 means
    no limit."""
    max_check_bytes: int = Field(default=0, ge=0)
    """Bytes to fetch for checking a part of each claimed root of a job; 0 means no limit."""
    max_data_requests_eth: float = Field(default=-1, ge=-1, le=1e12)
    """A challenger's limit on requests for the rounding logs of one job, deposits included; 0 requests nothing, and -1
    follows the price of gas and what the job is worth."""
    withdrawal_address: Address | None = None
    """Account that gets what is above `keep_eth`; none: everything stays."""
    keep_eth: float | None = Field(default=None, ge=0, le=1e12)
    """Ether kept for stakes and gas, on top of what open jobs may still need. Requires withdrawal_address."""
    limits: Limits = Limits()
    keep: Keep = Keep()
    fees: Fees = Fees()
    policy: Policy = Policy()
    notify: Notify = Notify()

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, values: Any) -> Any:
        if isinstance(values, dict) and str(values.get("confirmations", -1)) == "-1":
            local = str(values.get("chain_id", 31337)) in {str(chain) for chain in LOCAL_CHAINS}
            values = {**values, "confirmations": 0 if local else PUBLIC_CONFIRMATIONS}
        return values

    @field_validator("evaluator")
    @classmethod
    def _known(cls, name: str) -> str:
        names = {*EVALUATORS, *metadata.entry_points(group=EVALUATORS_GROUP).names}
        if name not in names:
            raise ValueError(f"evaluator {name!r}; use one of {', '.join(sorted(names))}")
        return name

    @model_validator(mode="after")
    def _agree(self) -> Self:
        # SAFETY: a watcher whose root has no claim loses its stake, so it must be able to claim the root itself.
        if self.max_watch_eth and self.mode is not Mode.CHALLENGE:
            raise ValueError(
                'max_watch_eth stakes on a result; set mode = "challenge", so that it can be claimed'
            )
        if (self.withdrawal_address is None) != (self.keep_eth is None):
            raise ValueError(
                "withdrawal_address and keep_eth go together: where ether goes, and how much of it stays"
            )
        if (self.signer_url is None) != (self.signer_address is None):
            raise ValueError(
                "signer_url and signer_address go together: where the signer is, and for whom it signs"
            )
        if self.check != "all" and self.max_watch_eth:
            raise ValueError('max_watch_eth pays for whole runs; set check = "all" to watch jobs')
        if self.agree > len(self.rpc_url):
            raise ValueError(
                f"agree = {self.agree}, but rpc_url names {len(self.rpc_url)}; name more endpoints, or lower agree"
            )
        if self.device == "cuda" and self.evaluator != "torch":
            raise ValueError(
                f'evaluator = "{self.evaluator}" runs on the processor; set it to "torch", or device = "cpu"'
            )
        return self

    def of_others(self, check: str) -> Settings:
        """Return the settings of a challenger that has chosen nothing but what it checks, on the same chain."""
        return Settings.model_construct(
            chain_id=self.chain_id,
            block_s=self.block_s,
            confirmations=0 if self.chain_id in LOCAL_CHAINS else PUBLIC_CONFIRMATIONS,
            mode=Mode.CHALLENGE,
            check=check,
        )

    @property
    def keystore_path(self) -> Path:
        return self.keystore or self.data_dir / "key.json"

    @property
    def deployment_file(self) -> Path:
        return self.deployment or Path("deployments") / f"{self.chain_id}.json"

    @property
    def max_stake(self) -> int:
        """`max_stake_eth` in wei; 0 means no limit."""
        return int(self.max_stake_eth * ETHER)

    @property
    def max_watch(self) -> int:
        """`max_watch_eth` in wei; 0 watches none."""
        return int(self.max_watch_eth * ETHER)

    @property
    def max_data_requests(self) -> int | None:
        """`max_data_requests_eth` in wei; None follows the job."""
        return int(self.max_data_requests_eth * ETHER) if self.max_data_requests_eth >= 0 else None

    @property
    def node_price(self) -> int:
        """`policy.node_price_eth` in wei; 0 asks for nothing."""
        return int(self._asked(self.policy.node_price_eth, NODE_PRICE_ETH) * ETHER)

    @property
    def max_reserve_prizes(self) -> int:
        """`policy.max_reserve_prizes`; 0 means no limit."""
        return int(self._asked(self.policy.max_reserve_prizes, RESERVE_PRIZES))

    def _asked(self, value: float, public: float) -> float:
        """Return a value; where it is negative, 0 on a development chain and ``public`` elsewhere."""
        return value if value >= 0 else 0 if self.chain_id in LOCAL_CHAINS else public

    @property
    def block_time_s(self) -> float:
        """Seconds from a block to the next; zero on a development chain."""
        if self.block_s < 0:
            return 0.0 if self.chain_id in LOCAL_CHAINS else MAIN_CHAIN_BLOCK_S
        return self.block_s

    @property
    def latency_s(self) -> float:
        """Seconds, at most, until a move of another party is seen and ours is mined, if blocks have room; zero on a
        development chain."""
        block_s, counts_s = self.block_time_s, FINALITY_S[self.finality]
        if not block_s:
            return 0.0
        return max(self.confirmations * block_s, counts_s) + 2 * block_s + self.poll_s

    @property
    def mined_s(self) -> float:
        """Seconds from one transaction to the next, if each is sent once the one before is mined, in a long row; zero
        on a development chain."""
        return self.block_time_s + self.poll_s if self.block_time_s else 0.0

    @property
    def view_policy(self) -> ViewRule:
        """Return which view of the chain to act on."""
        age = self.max_head_age_s
        if age < 0:
            age = 0 if self.chain_id in LOCAL_CHAINS else max(OLD_BLOCKS * self.block_time_s, OLD_S)
        agree = self.agree or len(self.rpc_url) // 2 + 1
        return ViewRule(self.confirmations, self.finality, agree, age)

    @property
    def chain_rule(self) -> ChainRule:
        """Return what to take the chain for when it is checked."""
        block_s = self.block_s if self.block_s > 0 else MAIN_CHAIN_BLOCK_S
        return ChainRule(self.chain_id in LOCAL_CHAINS, block_s, self.finality)

    @property
    def worker_threads(self) -> int:
        """Threads of the kernels in each process."""
        return self.threads or max(1, (os.cpu_count() or 1) // self.workers)

    def read_password(self) -> str | None:
        """Return the keystore's password from its file or the environment, None if not set. Raises ConfigError."""
        if self.password_file is not None:
            try:
                return self.password_file.read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"password_file {self.password_file} cannot be read: {error}") from error
        return self.password.get_secret_value() if self.password is not None else None


def load_settings(config: Path | None = None, **flags: Any) -> Settings:
    """Return the settings of this process. ``flags`` that are None were not given. Raises ConfigError.

    The file is ``config``, else $ASSAY_CONFIG, else ./assay.toml if it exists.
    """
    path, values = config_file(config)
    for variable in os.environ:
        name = variable.upper().removeprefix(_PREFIX).partition("__")[0].lower()
        of_ours = variable.upper().startswith(_PREFIX) and variable != FILE_VARIABLE
        if of_ours and name not in Settings.model_fields:
            raise ConfigError(f"${variable} is not a setting; {_remedy(name, 'unset it')}")

    class FromFile(Settings):
        @classmethod
        def settings_customise_sources(  # type: ignore[override]
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            **_others: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=values)

    try:
        settings = FromFile(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        found = error.errors()
        told = [_explain(item, path if values else None) for item in found[:MAX_TOLD]]
        if len(found) > MAX_TOLD:
            told.append(f"and {len(found) - MAX_TOLD} more")
        raise ConfigError("; ".join(told)) from None
    except ValueError as error:
        raise ConfigError(f"a setting is not what it should be: {error}") from error
    settings.read_from(path)
    return settings


def setting_names() -> list[str]:
    """Return the names of all settings; those of a section as `limits.memory_bytes`."""
    found = []
    for name, field in Settings.model_fields.items():
        inner = field.annotation
        section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
        found += [f"{name}.{sub}" for sub in section.model_fields] if section else [name]
    return found


def _remedy(name: str, remedy: str) -> str:
    if name in RETIRED:
        return f"its name is now {RETIRED[name]}"
    return remedy + did_you_mean(name, [*setting_names(), *Settings.model_fields])


def _explain(item: Any, path: Path | None) -> str:
    name = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        variable = _PREFIX + name.upper().replace(".", "__")
        source = f"unset ${variable}" if variable in os.environ else f"remove it from {path or 'the flags'}"
        return f"{name} is not a setting; {_remedy(name, source)}"
    if not item["loc"]:
        return str(item["msg"]).removeprefix("Value error, ")
    hidden = isinstance(item["input"], dict) or name == "password"
    given = "" if hidden else f" = {str(item['input'])[:80]!r}"
    variable = _PREFIX + name.upper().replace(".", "__")
    return f"{name}{given}: {item['msg']}; set it in the configuration file, in ${variable} or by flag"
