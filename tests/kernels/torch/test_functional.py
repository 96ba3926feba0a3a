"""Every function of repops.torch.functional: values and gradients against PyTorch in float64."""

import pytest
import repops.torch as rt
import torch
import torch.nn.functional as tf
from repops.opset import AttrError, OpError, ShapeError
from repops.torch import functional as rf

TOLERANCE = 1e-5


def draw(*shape, seed=0, low=None):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))
    return x if low is None else x.abs() + low


def close(got, want, what):
    error = (got.double() - want).abs().max().item() if got.numel() else 0.0
    scale = max(1e-3, want.abs().max().item() if want.numel() else 0.0)
    assert got.shape == want.shape, what
    assert error <= TOLERANCE * scale, (what, error, scale)


def check(ours, theirs, *tensors):
    """Compare the value, and the gradients of all f32 tensors, up to rounding."""
    mine = [x.clone().requires_grad_(x.is_floating_point()) for x in tensors]
    exact = [(x.double() if x.is_floating_point() else x).clone() for x in tensors]
    exact = [x.requires_grad_(x.is_floating_point()) for x in exact]
    got, want = ours(*mine), theirs(*exact)
    close(got, want, "value")
    seed = draw(*want.shape, seed=99)
    got.backward(seed)
    want.backward(seed.double())
    for place, (x, y) in enumerate(zip(mine, exact, strict=True)):
        if y.requires_grad:
            close(x.grad, y.grad, f"gradient {place}")


X, ROWS = draw(4, 6, 5, 7), draw(5, 33)
IMAGE, KERNEL = draw(2, 4, 9, 8, seed=1), draw(6, 2, 3, 2, seed=2)
WINDOW = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
Q, K, V = draw(2, 3, 5, 8, seed=3), draw(2, 3, 7, 8, seed=4), draw(2, 3, 7, 6, seed=5)
MASK = torch.arange(35).reshape(5, 7) % 3 != 1


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "silu", "gelu"])
def test_activations(name):
    check(getattr(rf, name), getattr(tf, name), X)


def test_gelu_with_tanh():
    check(lambda x: rf.gelu(x, "tanh"), lambda x: tf.gelu(x, approximate="tanh"), X)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [-1, 1, 0])
def test_softmax(name, dim):
    check(lambda x: getattr(rf, name)(x, dim), lambda x: getattr(tf, name)(x, dim), X)


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    tensors = [X, draw(3, 7, seed=6), draw(3, seed=7)][: 3 if bias else 2]
    check(rf.linear, tf.linear, *tensors)


@pytest.mark.parametrize("bias", [True, False])
def test_conv2d(bias):
    tensors = [IMAGE, KERNEL, draw(6, seed=8)][: 3 if bias else 2]
    check(lambda *t: rf.conv2d(*t, **WINDOW), lambda *t: tf.conv2d(*t, **WINDOW), *tensors)


def test_embedding():
    index = torch.tensor([[1, 0, 4], [4, 4, 2]])
    check(lambda w: rf.embedding(index, w), lambda w: tf.embedding(index, w), draw(5, 3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy(reduction, ignore):
    target = torch.tensor([0, 2, 4, 2, 1])
    options = {"ignore_index": ignore, "reduction": reduction}
    check(
        lambda x: rf.cross_entropy(x, target, **options),
        lambda x: tf.cross_entropy(x, target, **options),
        draw(5, 33),
    )
    places = torch.arange(4 * 5 * 7).reshape(4, 5, 7) % 6
    check(
        lambda x: rf.cross_entropy(x, places, **options),
        lambda x: tf.cross_entropy(x, places, **options),
        X,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_loss(reduction):
    check(
        lambda a, b: rf.mse_loss(a, b, reduction),
        lambda a, b: tf.mse_loss(a, b, reduction=reduction),
        X,
        X + 1,
    )


@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(affine):
    tensors = [X, draw(5, 7, seed=9), draw(5, 7, seed=10)][: 3 if affine else 1]
    check(
        lambda x, *p: rf.layer_norm(x, (5, 7), *p, eps=1e-3),
        lambda x, *p: tf.layer_norm(x, (5, 7), *p, eps=1e-3),
        *tensors,
    )


def test_rms_norm():
    check(
        lambda x, w: rf.rms_norm(x, (7,), w, eps=1e-3),
        lambda x, w: tf.rms_norm(x, (7,), w, eps=1e-3),
        X,
        draw(7, seed=11),
    )


@pytest.mark.parametrize("shape", [(4, 6, 5, 7), (4, 6)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape, training):
    x, weight, bias = draw(*shape), draw(6, seed=12), draw(6, seed=13)
    mean, variance = draw(6, seed=14), draw(6, seed=15, low=0.5)
    ours, theirs = (mean.clone(), variance.clone()), (mean.double(), variance.double())
    check(
        lambda x, w, b: rf.batch_norm(x, *ours, w, b, training, 0.1, 1e-3),
        lambda x, w, b: tf.batch_norm(x, *theirs, w, b, training, 0.1, 1e-3),
        *(x, weight, bias),
    )
    for got, want in zip(ours, theirs, strict=True):
        close(got, want, "running statistics")


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(4, 6, 5, 7), (4, 6)])
def test_group_norm(affine, shape):
    tensors = [draw(*shape), draw(6, seed=16), draw(6, seed=17)][: 3 if affine else 1]
    check(lambda x, *p: rf.group_norm(x, 2, *p), lambda x, *p: tf.group_norm(x, 2, *p), *tensors)


@pytest.mark.parametrize("causal", [True, False])
def test_attention(causal):
    check(
        lambda *t: rf.scaled_dot_product_attention(*t, is_causal=causal),
        lambda *t: tf.scaled_dot_product_attention(*t, is_causal=causal),
        *(Q, K, V),
    )


def test_attention_with_masks():
    check(
        lambda *t: rf.scaled_dot_product_attention(*t, attn_mask=MASK, scale=0.3),
        lambda *t: tf.scaled_dot_product_attention(*t, attn_mask=MASK, scale=0.3),
        *(Q, K, V),
    )
    check(
        lambda q, k, v, m: rf.scaled_dot_product_attention(q, k, v, m),
        lambda q, k, v, m: tf.scaled_dot_product_attention(q, k, v, m),
        *(Q, K, V, draw(3, 5, 7, seed=18)),
    )


@pytest.mark.parametrize(
    "window", [{"kernel_size": 2}, {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}]
)
def test_pooling(window):
    for name in ("max_pool2d", "avg_pool2d"):
        check(
            lambda x, name=name: getattr(rf, name)(x, **window),
            lambda x, name=name: getattr(tf, name)(x, **window),
            IMAGE,
        )


def test_dropout_is_a_function_of_seed_step_and_site():
    x = draw(50, 40).requires_grad_()
    y = rf.dropout(x, 0.25, seed=7, step=3, site=1)
    y.sum().backward()
    kept = y != 0
    assert 0.7 < kept.double().mean() < 0.8
    assert torch.equal(y[kept], (x * torch.tensor(1 / 0.75))[kept])
    assert torch.equal(x.grad, kept * torch.tensor(1 / 0.75))
    assert torch.equal(y, rf.dropout(x, 0.25, seed=7, step=3, site=1))
    for other in (
        {"seed": 8, "step": 3, "site": 1},
        {"seed": 7, "step": 4, "site": 1},
        {"seed": 7, "step": 3, "site": 2},
    ):
        assert not torch.equal(y, rf.dropout(x, 0.25, **other))
    assert rf.dropout(x, 0.25, training=False, seed=7, step=3, site=1) is x
    for p in (1.0, -0.1):
        with pytest.raises(AttrError, match="p must be"):
            rf.dropout(x, p, seed=7, step=3, site=1)


def test_arguments_of_any_layout():
    """Views that torch makes, and gradients that arrive as views."""
    a, w = draw(7, 4).t(), draw(3, 7)
    check(rf.linear, tf.linear, a.contiguous(), w)
    x = draw(4, 7).requires_grad_()
    rf.linear(x[:, ::2], w[:, ::2]).t().sum().backward()
    y = x.detach().double().requires_grad_()
    tf.linear(y[:, ::2], w[:, ::2].double()).t().sum().backward()
    close(x.grad, y.grad, "gradient")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: rf.linear(X, draw(3, 6)), "weight"),
        (lambda: rf.linear(X.double(), draw(3, 7)), "mm: a"),
        (lambda: rf.cross_entropy(ROWS, torch.zeros(4, dtype=torch.int64)), "target"),
        (lambda: rf.cross_entropy(ROWS, torch.zeros(5)), "target"),
        (lambda: rf.cross_entropy(ROWS, torch.zeros(5, dtype=torch.int64), reduction="max"), "reduction"),
        (lambda: rf.layer_norm(X, (6,)), "normalized_shape"),
        (lambda: rf.group_norm(X, 4), "num_groups"),
        (lambda: rf.batch_norm(X, None, None), "running_mean"),
        (lambda: rf.softmax(X, 4), "dim"),
        (lambda: rf.gelu(X, "exact"), "approximate"),
        (lambda: rf.conv2d(IMAGE, KERNEL, stride=(1, 2, 3)), "stride"),
        (lambda: rf.scaled_dot_product_attention(Q, V, K), "key"),
        (lambda: rf.scaled_dot_product_attention(Q, K, V, MASK, is_causal=True), "attn_mask"),
        (
            lambda: rf.scaled_dot_product_attention(Q, K, V, MASK[None, None, None].expand(2, 1, 1, 5, 7)),
            "attn_mask",
        ),
        (lambda: rf.avg_pool2d(ROWS, 2), "input"),
    ],
)
def test_refusals_name_the_argument(call, word):
    with pytest.raises(OpError, match=word):
        call()


def test_module():
    assert rt.functional is rf
    assert issubclass(ShapeError, OpError)
    with pytest.raises(AttributeError):
        _ = rt.softmax_of_nothing
