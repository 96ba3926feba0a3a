"""Pass 3: each ATen operator of the traced graph becomes nodes of the operator set.

The rules are in the modules next to this one, one function for each operator:

    @lowers("aten.mm.default")
    def mm(c: Context, a: Ref, b: Ref) -> Ref: ...

A rule gets the arguments of the call, tensors as `Ref`s, and gives a Ref (or a tuple, for several outputs).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from repops.opset import BF16, BOOL, F32, I64, Dtype
from repops.torch_arrays import to_numpy
from torch._subclasses.fake_tensor import FakeTensor

from referee_py.errors import InvalidEncoding
from referee_py.program import TensorType

from ..builder import Builder, Compose, Ref
from ..draft import Source
from ..errors import CaptureError, Unexpected, Unsupported
from ..phases import line_of
from ..remedies import without_lowering
from .bf16 import NATIVE, in_f32, narrowed, widened
from .knowledge import Knowledge

Rule = TypeVar("Rule", bound=Callable[..., Any])
RULES: dict[str, Callable[..., Any]] = {}

_DTYPES = {torch.float32: F32, torch.bfloat16: BF16, torch.int64: I64, torch.bool: BOOL}
_SMALL = {torch.int32: I64, torch.int16: I64, torch.int8: I64}
"""Dtypes that intermediate values may have: they are computed as i64, so nothing wraps at 32 bits."""


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for these ATen operators."""

    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = rule
        return rule

    return register


@dataclass
class Noise:
    """Random numbers of a program: one seed, and a site for each place that draws (docs/opset.md, section 9).

    Without `dropout`, masks of dropout keep everything and draw nothing.
    """

    b: Builder
    seed: int
    dropout: bool = True
    _sites: int = 0

    def uniform(self, shape: Sequence[int]) -> Ref:
        """Return f32 in [0, 1) from a new site."""
        site, self._sites = self._sites, self._sites + 1
        return self.b.op("philox", self._key, self.b.step(), shape=tuple(shape), dtype=F32, site=site)

    @cached_property
    def _key(self) -> Ref:
        return self.b.constant("seed", np.array(self.seed, np.uint64).view(np.int64))


class Uninitialised:
    """The result of `torch.empty`, which no operator may read."""


_OVERWRITES = {
    "aten.full_like.default",
    "aten.zeros_like.default",
    "aten.ones_like.default",
    "aten.copy.default",
}
_OVERWRITES |= {"aten.fill.Scalar", "aten.fill.Tensor", "aten.zero.default", "prims.copy_to.default"}
_OVERWRITES |= {"aten.uniform.default", "aten.normal_functional.default", "aten.exponential.default"}
_OVERWRITES |= {"aten.bernoulli.p", "aten.bernoulli.Tensor", "aten.copy_.default"}


_PARTS = {
    "aten.slice.Tensor",
    "aten.select.int",
    "aten.view.default",
    "aten.expand.default",
    "aten.alias.default",
}
_PARTS |= {"aten.transpose.int", "aten.permute.default", "aten.t.default", "aten.unsqueeze.default"}
"""Views: those of what is not initialised are not either."""
_FILLS = {"aten.slice_scatter.default", "aten.select_scatter.default", "aten.index_put.default"}
"""Operators that fill a part of a tensor, whose rest may not be initialised: zeros here."""
_WRITES = ("prims.copy_to.default", "aten.copy_.default")
"""Writes in place that some of PyTorch's decompositions make."""


@dataclass
class Context:
    """The state that a rule works with: the builder, and the types that PyTorch gives the call's outputs."""

    b: Builder
    known: Knowledge
    noise: Noise
    notes: dict[
        tuple[str, Ref], Any
    ]  # what one rule passes on to another about a value, while one graph is lowered
    outputs: tuple[TensorType | None, ...] = ()
    traced: tuple[Any, ...] = ()  # PyTorch's own arguments: fake tensors with strides
    backward: bool = False

    @property
    def o(self) -> Compose:
        """The builder for composites, which appends their operators exactly as they are."""
        return self.b.compose

    @property
    def out(self) -> TensorType:
        """The type of the (first) output."""
        first = self.outputs[0]
        assert first is not None
        return first

    def tensor(self, value: Ref | float, dtype: Dtype) -> Ref:
        """Return an operand of that dtype: a tensor is cast, a Python number becomes a rank-0 constant."""
        if isinstance(value, Ref):
            if BF16 in (value.dtype, dtype):  # which is cast from and to f32 only
                value = self.b.op("cast", value, dtype=F32)
            return self.b.op("cast", value, dtype=dtype)
        return self.b.full(value, dtype)

    def like(self, value: float, ref: Ref | TensorType) -> Ref:
        """Return a tensor of one value, with the dtype and shape of another."""
        return self.b.full(value, ref.dtype, ref.shape)


def dtype_of(dtype: torch.dtype) -> Dtype:
    if dtype.is_complex:
        raise Unsupported(
            f"{dtype}: there are no complex numbers in the operator set",
            "leave out Fourier transforms, or compute real and imaginary parts by products of real tensors",
        )
    if dtype not in _DTYPES:
        raise Unsupported(
            f"dtype {dtype} is not in the operator set",
            f"use one of {', '.join(str(d) for d in _DTYPES)} (for a module: module.float())",
        )
    return _DTYPES[dtype]


def type_of(value: Any) -> TensorType | None:
    """Return the type of a traced output, None if it is not a tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    try:
        dtype = _SMALL.get(value.dtype) or dtype_of(value.dtype)
        return TensorType(dtype, tuple(value.shape))
    except InvalidEncoding as error:
        raise Unsupported(str(error), "reshape the tensor to fewer dimensions") from error


def lower(graph: torch.fx.GraphModule, inputs: Sequence[Ref], builder: Builder, noise: Noise) -> list[Any]:
    """Append the graph's nodes to the builder; return its outputs, each a Ref or None.

    Raises Unsupported, naming module path, ATen operator and remedy.
    """
    values: dict[torch.fx.Node, Any] = {}
    context = Context(builder, Knowledge(builder), noise, {})
    remaining = iter(inputs)
    for node in graph.graph.nodes:
        match node.op:
            case "placeholder":
                values[node] = next(remaining)
            case "get_attr":
                values[node] = _lifted(graph, node.target, builder)
            case "call_function":
                values[node] = _call(node, values, context)
            case "output":
                outputs = torch.fx.map_arg(node.args[0], values.__getitem__)
                return list(outputs)
    raise AssertionError("a graph without an output")


def _call(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], context: Context) -> Any:
    args: Any = torch.fx.map_arg(node.args, values.__getitem__)
    kwargs: Any = torch.fx.map_arg(node.kwargs, values.__getitem__)
    if node.target is operator.getitem:
        return args[0][args[1]]
    origin = node.meta.get("custom", {})
    path, aten = origin.get("module"), node.meta.get("original_aten") or node.target
    where = f"module {path}" if path else "loss or gradient"
    line = line_of(node.meta.get("stack_trace"))
    context.b.label = f"{path or where}: {aten}" + (f" ({line})" if line else "")
    writes = str(node.target) in _WRITES
    if not node.users and not writes:
        return None
    try:
        # SAFETY: first of all, since a write into a view of a tensor that is read later has no users of its own.
        if writes and _is_computed(node.args[0]) and not _is_fresh(node.args[0], node):
            raise Unsupported(
                "it writes into a part of a tensor", "write into a new tensor, or use torch.where"
            )
        if not node.users:
            return None
        value = node.meta["val"]
        context.outputs = tuple(map(type_of, value if isinstance(value, tuple | list) else [value]))
        rule = RULES.get(str(node.target))
        if rule is None:
            what = "it" if str(aten) == str(node.target) else f"its part {node.target}"
            raise Unsupported(f"{what} has no lowering", _remedy(aten))
        context.traced = torch.fx.map_arg(node.args, lambda argument: argument.meta.get("val"))
        context.backward = "backward" in origin
        if args and isinstance(args[0], Uninitialised) and str(node.target) in _PARTS:
            return Uninitialised()
        if args and isinstance(args[0], Uninitialised) and str(node.target) in _FILLS:
            args = (context.like(0, context.out), *args[1:])
        if str(node.target) not in _OVERWRITES and any(isinstance(a, Uninitialised) for a in args):
            drawn = torch.Tag.nondeterministic_seeded in getattr(aten, "tags", ())
            raise Unsupported(
                "it reads a tensor that is not initialised",
                _remedy(aten) if drawn else "use zeros, ones or full",
            )
        result = _applied(rule, context, str(node.target), args, kwargs)
    except Unsupported as error:
        raise Unsupported(error.what, error.remedy, f"{where}, ATen operator {aten}") from error
    except CaptureError:
        raise
    except Exception as error:
        raise Unexpected(error, f"{where}, ATen operator {aten}") from error
    for ref, expected in zip(
        result if isinstance(result, tuple) else (result,), context.outputs, strict=True
    ):
        # INVARIANT: a rule gives the types that PyTorch gives. A difference is a bug in the rule.
        assert not isinstance(ref, Ref) or ref.type == expected, f"{node.target}: {ref.type}, not {expected}"
    return result


def _is_computed(node: Any) -> bool:
    """Return whether a node is computed in the step: writes into state are the step's results, and taken elsewhere."""
    return isinstance(node, torch.fx.Node) and node.op == "call_function"


def _is_fresh(node: Any, write: torch.fx.Node) -> bool:
    """Return whether the tensor written to is not read after the write, and is not a view of another one.

    SAFETY: a write gives a new value here; whoever has the old one, or a view of it, would not see it.
    """
    returns = node.target._schema.returns
    return all(user <= write for user in node.users) and not any(value.alias_info for value in returns)


def _applied(rule: Callable[..., Any], context: Context, name: str, args: Any, kwargs: Any) -> Any:
    """Apply a rule; one that does not take bf16 computes in f32."""
    if name in NATIVE:
        return rule(context, *args, **kwargs)
    given = in_f32(context.b, tuple(args)), {key: in_f32(context.b, value) for key, value in kwargs.items()}
    wanted, context.outputs = context.outputs, tuple(map(widened, context.outputs))
    try:
        return narrowed(context.b, rule(context, *given[0], **given[1]), wanted)
    finally:
        context.outputs = wanted


def _remedy(target: Any) -> str:
    if (known := without_lowering(str(target))) is not None:
        return known
    tags = getattr(target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return "draw with dropout, rand, randn, bernoulli, uniform, normal, exponential or randint, or draw it as data"
    return "use layers made of the operators in assay_capture.capture.RULES, or add a rule for it there"


def _lifted(graph: torch.fx.GraphModule, name: str, builder: Builder) -> Ref:
    """Return a tensor that the captured code made itself, as a constant. SAFETY: it must not be a parameter."""
    tensor = getattr(graph, name)
    if tensor.requires_grad:
        raise Unsupported(
            f"{name} is a parameter that is not the module's", "register it in the module that is captured"
        )
    source = source_of(tensor)
    if source.read is None:
        raise Unsupported(
            f"{name} is a tensor without values that is not a buffer", "register it as a buffer of its module"
        )
    return builder.constant(f"lifted.{name}", source)


def source_of(tensor: torch.Tensor) -> Source:
    """Return how to read a tensor of PyTorch; a tensor on the meta device or a fake one has no values."""
    type_ = TensorType(_SMALL.get(tensor.dtype) or dtype_of(tensor.dtype), tuple(tensor.shape))
    if tensor.device.type == "meta" or isinstance(tensor, FakeTensor):
        return Source(type_, None)
    wide = tensor.long() if tensor.dtype in _SMALL else tensor
    return Source(type_, lambda: np.array(to_numpy(wide.detach().cpu().contiguous()), order="C"))
