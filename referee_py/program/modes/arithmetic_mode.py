"""Questions about an arithmetic mode: what follows from it for trainers, challengers, clients and the court."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar


class ArithmeticMode(ABC):
    """An arithmetic in which programs can be trained, with its parameters if it has any. Two modes are equal if their
    bytes are.

    What is not said by a mode is so in a mode whose bits follow from the program alone: everybody computes the same.
    """

    name: ClassVar[str]
    """The name for people, without parameters."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """The names of what `changed` can change."""
    rule_contracts: ClassVar[tuple[str, ...]]
    """The contracts with the rules of its elements, in the order of Opset1's families."""

    follows_logs: ClassVar[bool] = False
    """True if the trainer writes rounding logs, an input of the run that all others follow. Then records name logs, the
    trainer commits to them, keeps and serves them, and shows them on request; a node that lacks them waits."""
    in_binary64: ClassVar[bool] = False
    """True if operators are evaluated in binary64, which takes memory for operands, result and radius."""
    data_slows_sums: ClassVar[bool] = False
    """True if data can make sums take longer than those of the first step, by which a job is measured."""
    for_bf16: ClassVar[bool] = False
    """True if it is repops-f32 but for contractions of bf16, which tensor cores compute in it. A program without any
    has the same results in both; one with them is quicker on a GPU."""
    runs_as_judged: ClassVar[bool] = True
    """True if a run on the processor executes an operator in the way in which it is judged."""

    @property
    @abstractmethod
    def byte(self) -> int:
        """The mode byte, which stands in the terms of a job."""

    @property
    def words(self) -> str:
        """The mode and its parameters, for people."""
        return self.name

    @property
    def bytes_in_words(self) -> str:
        """The bytes of the mode with any parameters, for people."""
        return str(self.byte)

    @property
    def many_trainers(self) -> bool:
        """Whether a job can have several trainers. SAFETY: with logs of their own, two would both be right."""
        return not self.follows_logs

    @property
    def watchable(self) -> bool:
        """Whether others than the trainers can know the root before it is revealed, so that a bounty can reward who
        does."""
        return not self.follows_logs

    @property
    def same_everywhere(self) -> bool:
        """Whether a run has the same bits on every machine, whoever begins it."""
        return not self.follows_logs

    @property
    def honest_may_lose(self) -> bool:
        """Whether a party that chooses the data can make an honest result wrong."""
        return False

    def variants(self) -> Iterable[ArithmeticMode]:
        """Return the mode with each choice of its parameters."""
        return (self,)

    def changed(self, **given: Any) -> ArithmeticMode:
        """Return the mode with other values for some of its ``parameters``. Raises InvalidInput for impossible ones."""
        assert not given, f"{self.name} has no parameters"
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArithmeticMode) and self.byte == other.byte

    def __hash__(self) -> int:
        return hash(self.byte)

    def __repr__(self) -> str:
        return f"<{self.words}>"


class UnknownMode(ArithmeticMode):
    """A byte that this build does not know. A job with a referee of its own may have any byte, and a later build other
    modes; nothing is computed in it, and nothing is said of it but its byte."""

    name = "unknown arithmetic"
    rule_contracts = ()

    def __init__(self, byte: int) -> None:
        self._byte = byte

    @property
    def byte(self) -> int:
        return self._byte

    @property
    def words(self) -> str:
        return f"{self.name} {self._byte}"
