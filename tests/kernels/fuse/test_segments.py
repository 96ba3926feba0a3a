"""An expression that is not a single pass is computed in several, with the bits of the operators one by one."""

import numpy as np
import pytest
from repops import reference
from repops.fuse import composites as c
from repops.fuse import fusion
from repops.fuse.expression import Eager, record
from repops.fuse.segments import Segments
from repops.host import cpu
from repops.tensors import canonical, spec_of


def draw(*shape, seed=0):
    return np.random.default_rng(seed + len(shape)).standard_normal(shape, dtype=np.float32)


def check(function, *inputs, **options):
    """Compare with the operators one by one; return how many steps are fused kernels and how many are not."""
    expression = record(function, [spec_of(x) for x in inputs], **options)
    fused = []

    def fuse(part):
        run = fusion._run_of(part)
        if run:
            fused.append(part)
        return run

    segments = Segments(expression, fuse, cpu.execute)
    want = function(Eager(reference.execute), *inputs, **options)
    for got in (segments(inputs), fusion.apply(function, *inputs, **options)):
        for a, b in zip(got, want if isinstance(want, tuple) else [want], strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert canonical(a).tobytes() == canonical(b).tobytes()
    return len(fused), len(segments._steps) - len(fused)


@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 2, 1), (1, 1, 1), (2, 3, 1100), (0, 3, 2), (2, 0, 3)])
def test_batch_norm(shape):
    x, grad = draw(*shape), draw(*shape, seed=1)
    weight, bias = draw(shape[1], 1, seed=2), draw(shape[1], 1, seed=3)
    mean, scale = draw(1, shape[1], 1, seed=4), draw(1, shape[1], 1, seed=5)
    check(c.batch_norm, x, weight, bias, eps=1e-5)
    check(c.batch_norm_grad, grad, x, weight, mean, scale)
    check(c.affine_norm, x, weight, bias, mean[0], scale[0])
    check(c.affine_norm_grad, grad, x, weight, mean[0], scale[0])


def test_only_what_must_is_kept():
    x, w = draw(3, 5, 7), draw(5, 1)
    # Two sums; the mean, the square, the statistics and the result are fused.
    assert check(c.batch_norm, x, w, w, eps=1e-5) == (4, 2)


def test_cheap_values_are_made_again_and_others_are_not():
    def composite(o, x):
        e, d = o.exp(x), o.sub(x, o.scalar(1.0))
        total = o.sum(o.mul(e, d), dims=(0,), keepdim=1)
        return o.mul(o.add(e, total), d)

    assert check(composite, draw(4, 6)) == (2, 1)


def test_other_operators_between():
    def composite(o, a, b):
        product = o.mm(o.neg(o.exp(a)), o.permute(b, dims=(1, 0)))
        scaled = o.mul(o.add(product, o.scalar(1.0)), o.sqrt(o.mul(product, product)))
        return (
            o.amax(scaled, dims=(0, 1), keepdim=0),
            o.reshape(scaled, shape=(scaled.shape[0] * scaled.shape[1],)),
            scaled,
        )

    check(composite, draw(3, 4), draw(5, 4, seed=1))


def test_constants_inputs_and_repeated_outputs():
    def composite(o, x):
        total = o.sum(x, dims=(0,), keepdim=0)
        return total, total, o.scalar(2.0), o.mul(o.scalar(2.0), o.neg(total)), x

    check(composite, draw(3, 4))


def test_any_chain():
    rng = np.random.default_rng(3)
    names = ("add", "mul", "sub", "maximum", "exp", "tanh", "sum", "permute", "amax")

    for _ in range(60):
        choices = rng.integers(0, 1 << 30, 40)

        def chain(o, x, y, *, choices=choices):
            values = [x, y]
            for pick in choices[:12]:
                name = names[pick % len(names)]
                a, b = values[pick // 16 % len(values)], values[pick // 1024 % len(values)]
                if name in ("sum", "amax"):
                    values.append(getattr(o, name)(a, dims=(int(pick) // 64 % 2,), keepdim=1))
                elif name == "permute":
                    values.append(o.permute(a, dims=(0, 1)))
                else:
                    values.append(
                        getattr(o, name)(a, b) if name not in ("exp", "tanh") else getattr(o, name)(a)
                    )
            return tuple(values[-4:])

        check(chain, draw(3, 5), draw(3, 5, seed=9))


@pytest.mark.parametrize(
    ("shape", "other"), [((4,), (1, 4)), ((4,), (2, 4)), ((3, 4), (1, 3, 4)), ((), (1, 1))]
)
def test_a_value_gets_more_dimensions(shape, other):
    def composite(o, w, x):
        exponential = o.exp(w)
        return exponential, o.add(exponential, x), o.mul(o.add(exponential, x), exponential)

    check(composite, draw(*shape), draw(*other))


def test_views_of_inputs_are_written_where_other_inputs_are():
    def crosswise(o, x, y):
        total = o.sum(x, dims=(0,), keepdim=1)
        return o.reshape(y, shape=x.shape), o.reshape(x, shape=x.shape), o.mul(total, total)

    x, y = draw(2, 3), draw(2, 3, seed=1)
    want = crosswise(Eager(reference.execute), x, y)
    arrays = [x.copy(), y.copy()]
    for got, expected in zip(fusion.apply(crosswise, *arrays, out=[*arrays, draw(1, 3)]), want, strict=True):
        assert got.tobytes() == expected.tobytes()
