"""Measures the time that a job takes, on its first step, before a stake is paid.

SAFETY: a trainer that joins risks its stake if it is not done before training ends, or does not answer in a dispute
before its clock runs out. A client may post a program whose step takes an hour, strides that make every refinement a
second training, or an element whose chain is long (`trial_cost`). In the modes exact and tc16 it may choose data that
keep the sums of the first step easy and make those of a later one hard: see `slower`.

What its steps really take counts from then on: `step_times`.

SAFETY: one outlier decides nothing, or a machine that was busy for a minute would leave a lie unchecked. A step counts
as disturbed if it took much longer than the processors that this process had for it; then it is measured again. What
is too slow is measured again later, too (`JobRunner`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import repops
from repops.opset import Arithmetic

from referee_py.errors import InvalidProgram, Unavailable
from referee_py.execute import Backend, Interpreter, NodeHook, Run, Site, Value
from referee_py.program import Program
from referee_py.program.describe_stats import node_flops
from referee_py.program.modes import mode_of
from referee_py.program.terms import Terms
from referee_py.rounding.backend import Rounded

from .modes import HardSums, hard_sums_of
from .package import Package
from .right_cost import Right, RightCost
from .step_times import Taken
from .trial_cost import Sampler, TrialCost, longest_chain

MARGIN = 2.0
"""Factor for a machine that is busier later than during the measurement."""
TRIES = 5
DISTURBED = 2.0
"""A step that takes this many times its processor time was kept from the processors, so its time means nothing."""
TOO_BUSY = 4.0
"""Factor of the limit in seconds of the clock, after which a first step ends whose processor time is within it."""
RATES = {"cpu": 5e11, "reference": 5e11}
"""Operations a second of a thread of the processor, by the backend's name: more than any reaches, two for each
multiply-add of 32 lanes at 5 GHz, and half as much again."""
SURE_RATE = {True: 1e6, False: 1e9}
"""Operations a second that any machine reaches; True for modes whose sums the client's data can make slow, or types: in
tc16 a term of a convolution with one channel and few positions takes as long as a thousand."""
GPU_RATE = 2e14
"""Operations a second of any other device: more than any GPU reaches in single precision."""
SHORT_SUM = 64
MANY_SUMS = 256
"""Terms that a sum counts for besides its own, for what each element costs."""
SHORT_S = 5.0
"""Longer measurements are not repeated, unless they were disturbed. NOTE: the libraries of rounded-f64 take a second to
start."""


class StepTooLong(InvalidProgram):
    """The first step takes longer than it may: on a faster machine, or on this one at another time, it may not."""


def hardest(program: Program) -> tuple[int, int]:
    """Return the operations of the largest operator of a program, by its types, and its node."""
    return max(((node_flops(program, node), k) for k, node in enumerate(program.nodes)), default=(0, 0))


def surely_short(program: Program, mode: int, limit_s: float) -> bool:
    """Return whether each operator takes less than ``limit_s`` seconds on any machine."""
    return hardest(program)[0] <= limit_s * SURE_RATE[mode_of(mode).data_slows_sums]


def check_operators(program: Program, limit_s: float, rate: float) -> None:
    """Raise StepTooLong if one operator takes more than ``limit_s`` seconds at ``rate`` operations a second.

    SAFETY: a kernel cannot be interrupted. So what is sure to take too long, by its types alone, is never begun.
    """
    operations, number = hardest(program)
    if operations > limit_s * rate:
        raise StepTooLong(
            f"node {number} ({program.nodes[number].name}) has {operations:.2g} operations, which take "
            f"{operations / rate:.3g} s at {rate:.2g} a second, more than this machine does; a first step may take "
            f"{limit_s:g} s; leave the job to faster machines"
        )


def rate_of(backend: Backend) -> float:
    """Return the operations a second that a backend stays below on this machine."""
    return GPU_RATE if on_gpu(backend) else RATES[_kernels(backend)] * repops.get_num_threads()


def on_gpu(backend: Backend) -> bool:
    """Return whether a backend computes on another device than the processor."""
    return _kernels(backend) not in RATES


def _kernels(backend: Backend) -> str:
    device = getattr(backend, "device", None)
    return "cpu" if backend.name == Rounded.name and device is None else backend.name


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Seconds of a plain step and of a step with its commitment, and the cost of the longest trial."""

    step_s: float
    commit_s: float
    trial: TrialCost
    worst: float = 1.0
    """Factor by which data may make a step slower than the first one; above 1 only where data slow sums."""
    right_s: float = 0.0
    """Seconds in which the processor executes the slowest operator before an appeal, where runs compute otherwise."""
    right_worst: float = 1.0
    """The factor of `right_s`: a GPU may be as quick with any data where the processor is not."""

    def slower(self, factor: float) -> CostEstimate:
        """Return the estimate if later steps may take that much longer, but not more than the worst data make them."""
        times = min(factor, self.worst)
        added = (times - 1) * self.step_s
        step_s, commit_s = self.step_s + added, self.commit_s + added
        return replace(
            self, step_s=step_s, commit_s=commit_s, right_s=min(factor, self.right_worst) * self.right_s
        )

    def least(self, other: CostEstimate) -> CostEstimate:
        """Return the lower of two measurements of the same job: nothing makes a step quicker than it is."""
        trial = min(self.trial, other.trial, key=lambda trial: trial.seconds)
        step_s, commit_s = min(self.step_s, other.step_s), min(self.commit_s, other.commit_s)
        right_s = min(self.right_s, other.right_s)
        return replace(self, step_s=step_s, commit_s=commit_s, trial=trial, right_s=right_s)

    def at_least(self, taken: Taken) -> CostEstimate:
        """Return the estimate if steps have really taken that."""
        added = max(taken.step_s - self.step_s, taken.commit_s - self.commit_s, 0.0)
        return replace(self, step_s=self.step_s + added, commit_s=self.commit_s + added)

    def train_s(self, terms: Terms) -> float:
        """Return the seconds of the whole run, committed at the first stride."""
        checkpoints = -(-terms.steps // terms.strides[0])
        return terms.steps * self.step_s + checkpoints * self._extra_s

    def dispute_s(self, terms: Terms) -> float:
        """Return the seconds of computing in one dispute, its appeal and trial included."""
        return self.match_s(terms) + self.right_s + self.trial.seconds

    def match_s(self, terms: Terms) -> float:
        """Return the seconds of computing until an operator is found. Each refinement replays up to one first stride,
        and commits to its leaves."""
        strides = [min(stride, terms.steps) for stride in terms.strides]
        leaves = sum(-(-coarse // fine) for coarse, fine in itertools.pairwise(strides))
        # One replay for each refinement; then the disputed step and the step before it, whose records may be evidence.
        return (len(strides) + 1) * strides[0] * self.step_s + leaves * self._extra_s + 2 * self.commit_s

    def answer_s(self, terms: Terms) -> float:
        """Return the seconds of computing, at most, for all that is requested under one checkpoint: its interval, and
        the last step once, committed, of which every tensor may have to be hashed again for its leaves.

        NOTE: what is requested of one step's logs takes less: they are read and hashed.
        """
        return min(terms.strides[0], terms.steps) * self.step_s + self.shown_s

    @property
    def shown_s(self) -> float:
        """Seconds of the longest turn that an answer takes: that last step."""
        return 2 * self.commit_s

    def waits_s(self, terms: Terms) -> float:
        """Return the seconds that a match waits, at most, for turns of answers that have begun: one for each time that
        it computes, which is a refinement for each stride, the disputed step, the step before it and its operator."""
        return (len(terms.strides) + 3) * self.shown_s

    @property
    def _extra_s(self) -> float:
        return max(self.commit_s - self.step_s, 0.0)


def measure(
    package: Package,
    backend: Backend,
    *,
    limit_s: float,
    stop: Callable[[], bool] = bool,
    clock: Callable[[], float] = time.monotonic,
    busy: Callable[[], float] = time.process_time,
    right: Right | None = None,
) -> CostEstimate:
    """Run and time the first step, plain and committed. A short step runs several times, and so does one that was
    disturbed; the fastest run counts, because the first one also loads libraries and fills caches. ``clock`` gives
    seconds, ``busy`` the seconds of processors that this process has had. ``right`` executes an operator as it is
    judged; None if the step does the same.

    Raises StepTooLong if it takes more than ``limit_s`` seconds of both, or is sure to, Unavailable if told to stop or
    if the machine has no time for it, HashMismatch if the tensors are not the program's.
    """
    terms = package.terms
    check_operators(package.program, limit_s, rate_of(backend))
    run = Run.of(package, backend)
    sampler = Sampler(package.program, terms.mode, clock)
    # SAFETY: the committed step comes first, node by node, so that it can be stopped; a plain step takes less time.
    began, fastest = clock(), {True: math.inf, False: math.inf}
    hook = _Limit(limit_s, stop, clock, busy, sampler)
    committed = Interpreter(package.program, package.constants, backend, hook)
    for _ in range(TRIES):
        disturbed = False
        hook.begin()
        for commit in fastest:
            start, used = clock(), busy()
            (committed if commit else run.executor).step(run.initial(), commit)
            took = clock() - start
            disturbed |= took > DISTURBED * (busy() - used)
            fastest[commit] = min(fastest[commit], took)
        spent = clock() - began
        if spent > TOO_BUSY * limit_s or (spent > SHORT_S and not disturbed):
            break
    hard = hard_sums_of(terms.mode)
    added = [] if hard is None else hardest_s(package.program, terms.mode, hard)
    here = hard is None or not on_gpu(backend)
    slow = [seconds for name, seconds in added if here or (hard and name in hard.on_devices)]
    worst = 1.0 + (sum(slow) / fastest[False] if slow else 0.0)
    right_s = 0.0
    if right is not None:
        judged = RightCost(package.program, terms.mode, right, stop, clock)
        Interpreter(package.program, package.constants, backend, judged).step(run.initial(), False)
        right_s = judged.seconds()
    right_worst = 1.0 + max((seconds for _, seconds in added), default=0.0) / right_s if right_s else 1.0
    return CostEstimate(fastest[False], fastest[True], sampler.cost(), worst, right_s, right_worst)


def hardest_s(program: Program, mode: int, hard: HardSums) -> list[tuple[str, float]]:
    """Return, for each node whose sums data can make slow, its operator and the seconds that they take at most besides
    the usual, on all cores: if every element of every step is of the slowest kind."""
    seconds = list[tuple[str, float]]()
    for node in program.nodes:
        types = [program.type_of(operand) for operand in node.inputs]
        if node.row.arithmetic is Arithmetic.SUM and types[0].dtype in hard.dtypes:
            sums = node.outputs[0].count
            steps = (longest_chain(node, types, mode) + SHORT_SUM) * sums
            # NOTE: few sums are not spread over cores, and what is found out for a column is for one element then.
            alone = 2 if sums < MANY_SUMS else 1
            threads = min(repops.get_num_threads(), max(1, sums // MANY_SUMS))
            seconds.append((node.name, alone * steps * hard.step_s / threads))
    return seconds


class _Limit(NodeHook):
    """Ends a first step that takes too long, between two operators. Passes operands to ``sampler``."""

    def __init__(
        self,
        limit_s: float,
        stop: Callable[[], bool],
        clock: Callable[[], float],
        busy: Callable[[], float],
        sampler: Sampler,
    ) -> None:
        self._limit_s = limit_s
        self._stop = stop
        self._clock, self._busy = clock, busy
        self._began = self._used = 0.0
        self._sampler = sampler

    def begin(self) -> None:
        """The next first step begins now."""
        self._began, self._used = self._clock(), self._busy()

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if self._sampler.wants(at.node):
            self._sampler.see(at.node, [value.array for value in inputs])
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if self._stop():
            raise Unavailable("told to stop before the first step was measured")
        took, used = self._clock() - self._began, self._busy() - self._used
        if min(took, used) > self._limit_s:
            raise StepTooLong(
                f"the first step is only at node {at.node} when its time is over; leave the job to faster machines"
            )
        if took > TOO_BUSY * self._limit_s:
            raise Unavailable(
                f"the first step is only at node {at.node} after {took:.0f} s, of which this machine gave it "
                f"{used:.0f} s of processors; it is measured again"
            )
        return outputs
