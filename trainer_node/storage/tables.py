"""The tables of a node's database (`trainer_node.storage.database` says what each is for)."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import ForeignKey, LargeBinary, String
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class Uint(TypeDecorator[int]):
    """An unsigned integer of up to 256 bits, as decimal text."""

    impl = String(78)
    cache_ok = True

    def process_bind_param(self, value: int | None, _dialect: Dialect) -> str | None:
        if value is None:
            return None
        if not 0 <= value < 1 << 256:
            raise ValueError(f"{value} is not an unsigned integer of 256 bits")
        return str(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> int | None:
        return None if value is None else int(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Base(DeclarativeBase): ...


class Meta(Base):
    __tablename__ = "meta"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Transaction(Base):
    """One transaction to be sent.

    ``status``: open (may still be mined), mined, failed (mined and reverted), lost (its nonce was used by a foreign
    transaction), refused (never accepted by the RPC endpoint; its nonce is free again).
    """

    __tablename__ = "transactions"
    id: Mapped[int] = mapped_column(primary_key=True)
    action: Mapped[str]
    sender: Mapped[str] = mapped_column(index=True)
    nonce: Mapped[int]
    to: Mapped[str | None]
    value: Mapped[int] = mapped_column(Uint)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    gas_limit: Mapped[int]
    status: Mapped[str] = mapped_column(default="open", index=True)
    created: Mapped[str] = mapped_column(default=_now)
    block: Mapped[int | None]
    gas_used: Mapped[int | None]
    gas_price: Mapped[int | None] = mapped_column(Uint)
    attempts: Mapped[list[Attempt]] = relationship(
        back_populates="transaction", order_by="Attempt.id", lazy="selectin"
    )


class Attempt(Base):
    """A signed version of a transaction, kept so that it can be sent again after a crash."""

    __tablename__ = "attempts"
    id: Mapped[int] = mapped_column(primary_key=True)
    transaction_id: Mapped[int] = mapped_column(ForeignKey("transactions.id"), index=True)
    hash: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    raw: Mapped[bytes] = mapped_column(LargeBinary)
    max_fee: Mapped[int] = mapped_column(Uint)
    priority_fee: Mapped[int] = mapped_column(Uint)
    created: Mapped[str] = mapped_column(default=_now)
    transaction: Mapped[Transaction] = relationship(back_populates="attempts")


class KnownJob(Base):
    __tablename__ = "jobs"
    job: Mapped[int] = mapped_column(Uint, primary_key=True)
    status: Mapped[str]


class UndoneMatch(Base):
    __tablename__ = "undone"
    job: Mapped[int] = mapped_column(Uint, primary_key=True)
    match: Mapped[int] = mapped_column(Uint, primary_key=True)
    heard: Mapped[bool]
    absent: Mapped[int | None] = mapped_column(Uint)


class Checkpoint(Base):
    __tablename__ = "checkpoints"
    job: Mapped[int] = mapped_column(Uint, primary_key=True)
    step: Mapped[int] = mapped_column(Uint, primary_key=True)
    checkpoint: Mapped[bytes | None] = mapped_column(LargeBinary(32))
    state: Mapped[bytes] = mapped_column(LargeBinary)


class WrittenLog(Base):
    __tablename__ = "logs"
    job: Mapped[int] = mapped_column(Uint, primary_key=True)
    step: Mapped[int] = mapped_column(Uint, primary_key=True)
    root: Mapped[bytes] = mapped_column(LargeBinary(32))


WANTED_UNTIL = "transaction %s: wanted until"
"""Name in `Progress` of the last second in which a transaction is wanted, by the hash of its first attempt, in
hexadecimal: SQLite gives numbers of rows again."""


class Progress(Base):
    __tablename__ = "progress"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class KeptEvents(Base):
    __tablename__ = "kept_events"
    query: Mapped[str] = mapped_column(primary_key=True)
    through: Mapped[int]
    hash: Mapped[bytes] = mapped_column(LargeBinary(32))
    logs: Mapped[str]
