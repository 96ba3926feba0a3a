"""The same random numbers for a program and for eager PyTorch, so that what is made of them can be compared.

While it is compared, each draw of a step gives fixed numbers, by its place in the order of draws. So the guard covers
everything but the drawing itself (tests/assay_capture/capture/lowering/test_random.py is about that).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .errors import Unsupported
from .seeded import permutation, uniform
from .trace import Objective

aten = torch.ops.aten
_DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
"""Kernels that all functions and layers of dropout call; each also in place, with an underscore."""
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Kernels of layers that draw masks of dropout themselves."""


@dataclass(frozen=True)
class FixedObjective(Objective):
    """An objective of which every call draws the same numbers. `counts` has how many, for each call; `narrow`, for each
    whether it has computed in bf16."""

    of_draws: Objective
    counts: list[int]
    generators: Generators
    narrow: list[bool]

    @classmethod
    def around(cls, objective: Objective) -> FixedObjective:
        return cls(objective.loss, objective.inputs, objective, [], Generators(), [])

    @property
    def beside(self) -> Any:
        return self.of_draws.beside

    def __call__(self, forward: Callable[..., Any], batch: Mapping[str, torch.Tensor]) -> Any:
        with FixedDraws(self.generators) as draws:
            result = self.of_draws(forward, batch)
        self.counts.append(draws.count)
        self.narrow.append(draws.is_narrow)
        return result


class Generators:
    """States of PyTorch's generators at each draw of a step, whose fixed numbers move none. A context manager, after
    which they are as they were."""

    def __init__(self) -> None:
        self._seen = set[bytes]()
        self._before: dict[int, tuple[torch.Generator, torch.Tensor]] = {}

    def move(self, generator: torch.Generator) -> None:
        """Move a generator on by a number. Raises Unsupported where it stands as at an earlier draw.

        SAFETY: the fixed numbers would hide that a step sets a seed. Its numbers are the same in each step, or twice in
        one, and a program draws new ones each time.
        """
        with _disable_current_modes():  # NOTE: a trace would take the state for a tensor of the step
            now = generator.get_state()
            self._before.setdefault(id(generator), (generator, now))
            state = hashlib.sha256(now.numpy().tobytes()).digest()
            torch.rand((), generator=generator)
        if state in self._seen:
            raise Unsupported(
                "the step draws the same random numbers again: it sets a seed or makes a generator, and a program "
                "draws new numbers each time",
                "draw them once, into a buffer of the module, or set the seed before training",
            )
        self._seen.add(state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for generator, state in self._before.values():
            generator.set_state(state)


class FixedDraws(TorchDispatchMode):
    """Replaces what PyTorch draws. `count` is the number of draws so far; `is_narrow`, whether something is bf16."""

    def __init__(self, generators: Generators) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count, self.is_narrow, self._generators = 0, False, generators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = _DRAWS.get(str(func.overloadpacket))
        if rule is None:
            result = func(*args, **kwargs)
            self.is_narrow |= getattr(result, "dtype", None) is torch.bfloat16
            return result
        self._generators.move(kwargs.get("generator") or torch.default_generator)
        return rule(self, func, args, kwargs)

    def uniform(self, shape: Any) -> torch.Tensor:
        """Return f32 in [0, 1), none of them 0."""
        self.count += 1
        numbers = uniform(self.count, "guard", tuple(shape), 0.5)
        return torch.tensor(numbers + numbers.dtype.type(0.5)).clamp(min=2.0**-24)

    def normal(self, shape: Any) -> torch.Tensor:
        return (self.uniform(shape) + self.uniform(shape) + self.uniform(shape) - 1.5) * 2


def _made(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """rand, randn and their kin: a tensor of the shape and dtype that the call asks for."""
    first = args[0]
    shape = first.shape if isinstance(first, torch.Tensor) else first
    dtype = kwargs.get("dtype") or (
        first.dtype if isinstance(first, torch.Tensor) else torch.get_default_dtype()
    )
    draw = mode.normal if "randn" in str(func) else mode.uniform
    return draw(shape).to(dtype)


def _integers(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> torch.Tensor:  # noqa: ARG001
    like = args[0] if isinstance(args[0], torch.Tensor) else None
    numbers = [value for value in args if isinstance(value, int)]
    low, high = numbers if len(numbers) == 2 else (0, numbers[0])
    shape = (
        like.shape if like is not None else next(value for value in args if isinstance(value, list | tuple))
    )
    dtype = kwargs.get("dtype") or (torch.int64 if like is None else like.dtype)
    return (low + (mode.uniform(shape) * (high - low)).floor()).to(dtype)


def _permuted(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> torch.Tensor:  # noqa: ARG001
    mode.count += 1
    return torch.tensor(permutation(mode.count, "guard", args[0]))


def _filled(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> Any:
    """uniform_, normal_ and their kin, which write into their first argument."""
    x, *rest = args
    named = {"from": 0.0, "to": 1.0, "mean": 0.0, "std": 1.0, "lambd": 1.0, "p": 0.5, **kwargs}
    name = str(func.overloadpacket).partition(".")[2].rstrip("_")
    if name == "uniform":
        low, high = _two(rest, named, "from", "to")
        value = low + mode.uniform(x.shape) * (high - low)
    elif name == "normal":
        mean, deviation = _two(rest, named, "mean", "std")
        value = mean + mode.normal(x.shape) * deviation
    elif name == "exponential":
        value = -mode.uniform(x.shape).log() / (rest[0] if rest else named["lambd"])
    else:
        value = (mode.uniform(x.shape) < (rest[0] if rest else named["p"])).to(x.dtype)
    return x.copy_(value)


def _two(rest: Any, named: Mapping[str, Any], first: str, second: str) -> tuple[Any, Any]:
    return rest[0] if rest else named[first], rest[1] if len(rest) > 1 else named[second]


def _coins(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    x, *rest = args
    p = rest[0] if rest else kwargs.get("p", x)
    return (mode.uniform(x.shape) < p).to(x.dtype)


def _around(mode: FixedDraws, func: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    """normal(mean, std), where either may be a tensor, or both numbers with a size."""
    mean, deviation, *size = args
    shape = (
        size[0]
        if size
        else torch.broadcast_shapes(*(v.shape for v in (mean, deviation) if isinstance(v, torch.Tensor)))
    )
    return mean + mode.normal(shape) * deviation


_DRAWS: dict[str, Callable[..., Any]] = {
    **{f"aten.{name}": _made for name in ("rand", "rand_like", "randn", "randn_like")},
    **{f"aten.{name}": _integers for name in ("randint", "randint_like")},
    **{f"aten.{name}_": _filled for name in ("uniform", "normal", "exponential", "bernoulli")},
    "aten.randperm": _permuted,
    "aten.bernoulli": _coins,
    "aten.normal": _around,
}


@contextlib.contextmanager
def without_dropout() -> Iterator[None]:
    """Make dropout the identity, for capture and for eager PyTorch."""
    attention = functional.scaled_dot_product_attention

    def identity(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return x

    def plain(
        query: Any, key: Any, value: Any, mask: Any = None, _dropout: float = 0.0, *rest: Any, **more: Any
    ) -> Any:
        more.pop("dropout_p", None)
        return attention(query, key, value, more.pop("attn_mask", mask), 0.0, *rest, **more)

    names = (f"{name}{end}" for name in _DROPOUTS for end in ("", "_"))
    replaced: list[tuple[Any, str, Callable[..., Any]]]
    replaced = [(owner, name, identity) for name in names for owner in (torch, torch._VF)]
    replaced += [(functional, "scaled_dot_product_attention", plain)]
    replaced += [(torch._VF, name, _recurrent_plain(getattr(torch._VF, name))) for name in _RECURRENT]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in replaced]
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, old in before:
            if old is None:  # which torch._VF finds elsewhere
                delattr(owner, name)
            else:
                setattr(owner, name, old)


def _recurrent_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel of recurrent layers without dropout between them: that is its only float."""

    def plain(*args: Any) -> Any:
        return function(*(0.0 if isinstance(value, float) else value for value in args))

    return plain
