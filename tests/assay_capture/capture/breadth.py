"""Functions of a tensor [4, 6] whose programs are compared with eager PyTorch, by the names of what they try.

Those in `REFUSED` cannot be programs; the others must agree in loss and gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from .factors import FACTORS
from .refused import CANNOT, Function


def img(function: Function) -> Function:
    """Return the function of four images of 6 x 6."""

    def of_rows(x: torch.Tensor) -> Any:
        rows = torch.cat([x, x * 0.5, x.flip(1), x + 1, x * 2, x - 1], 1)
        return function(rows.reshape(4, 1, 6, 6))

    return of_rows


def assigned(x: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    y = x.clone()
    y[place] = value
    return y


CASES: dict[str, Function] = {
    # crashes
    "bool mul": lambda x: torch.where((x > 0) * (x < 1), x, 0 * x),
    "bool add": lambda x: torch.where((x > 0) + (x < -1), x, 0 * x),
    "isfinite": lambda x: torch.where(torch.isfinite(x), x, 0 * x),
    "isnan": lambda x: torch.where(torch.isnan(x), 0 * x, x),
    "isinf": lambda x: torch.where(torch.isinf(x), 0 * x, x),
    "nan_to_num": lambda x: torch.nan_to_num(x),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
    "logaddexp2": lambda x: torch.logaddexp2(x, 2 * x),
    # rounding
    "floor": lambda x: x * torch.floor(3 * x),
    "ceil": lambda x: x * torch.ceil(3 * x),
    "round": lambda x: x * torch.round(3 * x),
    "trunc": lambda x: x * torch.trunc(3 * x),
    "frac": lambda x: torch.frac(3 * x),
    "round dec": lambda x: x * torch.round(3 * x, decimals=2),
    "fmod": lambda x: torch.fmod(5 * x, 1.5),
    "remainder": lambda x: torch.remainder(5 * x, 1.5),
    "remainder t": lambda x: torch.remainder(5 * x, x + 3),
    "floor_divide f": lambda x: x * torch.floor_divide(5 * x, 1.5),
    "fmod t": lambda x: torch.fmod(5 * x, x + 3),
    "div floor": lambda x: x * torch.div(5 * x, 1.5, rounding_mode="floor"),
    "div trunc": lambda x: x * torch.div(5 * x, 1.5, rounding_mode="trunc"),
    "fake_quant": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    # making
    "eye": lambda x: x @ torch.eye(6),
    "eye2": lambda x: x @ torch.eye(6, 4),
    "tril_indices": lambda x: (x.T @ x)[tuple(torch.tril_indices(6, 6))],
    "triu_indices": lambda x: (x.T @ x)[tuple(torch.triu_indices(6, 6, 1))],
    "linspace": lambda x: x * torch.linspace(0, 1, 6),
    "logspace": lambda x: x * torch.logspace(0, 1, 6),
    "one_hot": lambda x: x @ F.one_hot(torch.arange(6) % 3, 3).float(),
    "tril": lambda x: (x.T @ x).tril(),
    "triu": lambda x: (x.T @ x).triu(1),
    "diag": lambda x: torch.diag(x.T @ x),
    "diag_embed": lambda x: torch.diag_embed(x),
    "diagonal": lambda x: (x.T @ x).diagonal(),
    "diagonal1": lambda x: (x.T @ x).diagonal(1),
    "trace": lambda x: (x.T @ x).trace() * x,
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0],
    "block_diag": lambda x: torch.block_diag(x, x),
    "vander": lambda x: torch.vander(x[0], 3),
    "bucketize": lambda x: torch.bucketize(x.detach(), torch.tensor([-0.5, 0, 0.5])) * x,
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([-0.5, 0, 0.5]), x.detach()) * x,
    # sorting
    "sort": lambda x: x.sort(1)[0],
    "sort desc": lambda x: x.sort(1, descending=True)[0],
    "sort both": lambda x: x.sort(0),
    "argsort": lambda x: x.argsort(1) * x,
    "topk": lambda x: x.topk(3, 1)[0],
    "topk both": lambda x: x.topk(3, 1),
    "topk smallest": lambda x: x.topk(2, 1, largest=False),
    "median": lambda x: x.median(1)[0],
    "kthvalue": lambda x: x.kthvalue(2, 1)[0],
    "quantile": lambda x: torch.quantile(x, 0.3, dim=1),
    "msort": lambda x: torch.msort(x),
    "mode": lambda x: x.mode(1)[0],
    "cumsum": lambda x: x.cumsum(1),
    "cumsum0": lambda x: x.cumsum(0),
    "cumsum int": lambda x: (x > 0).long().cumsum(1) * x,
    "cumsum bool": lambda x: (x > 0).cumsum(1) * x,
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "argmin": lambda x: x.argmin(1, keepdim=True) * x,
    "prod": lambda x: x.prod(1),
    "prod all": lambda x: x.prod() * x,
    "logsumexp": lambda x: x.logsumexp(1),
    "aminmax": lambda x: torch.aminmax(x, dim=1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1),
    "norm": lambda x: x.norm(dim=1),
    "norm3": lambda x: x.norm(3, dim=1),
    "norm1": lambda x: x.norm(1, dim=1),
    "norminf": lambda x: x.norm(float("inf"), dim=1),
    "cdist": lambda x: torch.cdist(x, x + 1),
    "cdist1": lambda x: torch.cdist(x, x + 1, p=1),
    "pdist": lambda x: F.pdist(x),
    "count_nonzero": lambda x: (
        (x > 0).count_nonzero(
            1,
        )[:, None]
        * x
    ),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "cosine": lambda x: F.cosine_similarity(x, x + 1),
    "normalize": lambda x: F.normalize(x),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "unfold dense": lambda x: x.unfold(1, 3, 1),
    "im2col": img(lambda y: F.unfold(y, 3)),
    "fold": lambda x: F.fold(x.reshape(1, 4, 6), (3, 4), 2),
    "diff": lambda x: x.diff(dim=1),
    "rot90": lambda x: x.rot90(),
    "tensor_split": lambda x: x.tensor_split(2, 1)[0],
    "take_along": lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True), 1),
    "take": lambda x: torch.take(x, torch.tensor([1, 5])),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:]),
    "kron": lambda x: torch.kron(x[:2], x[2:]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: torch.tensordot(x, x, ([1], [1])),
    "baddbmm": lambda x: torch.baddbmm(
        x.reshape(1, 4, 6), x.reshape(1, 4, 6), torch.eye(6)[None], beta=0.5, alpha=2.0
    ),
    "addmm alpha": lambda x: torch.addmm(x, x, torch.eye(6), beta=0.5, alpha=2.0),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
    "lerp": lambda x: torch.lerp(x, 2 * x, 0.3),
    "hypot": lambda x: torch.hypot(x, x + 1),
    "dist": lambda x: torch.dist(x, x + 1) * x,
    # elementary
    "log2": lambda x: (x.abs() + 1).log2(),
    "log10": lambda x: (x.abs() + 1).log10(),
    "exp2": lambda x: x.exp2(),
    "tan": lambda x: x.tan(),
    "atan": lambda x: x.atan(),
    "atan2": lambda x: torch.atan2(x, x.flip(1)),
    "asin": lambda x: (x / 4).asin(),
    "acos": lambda x: (x / 4).acos(),
    "sinh": lambda x: x.sinh(),
    "cosh": lambda x: x.cosh(),
    "asinh": lambda x: x.asinh(),
    "acosh": lambda x: (x.abs() + 1.5).acosh(),
    "atanh": lambda x: (x / 4).atanh(),
    "erfc": lambda x: x.erfc(),
    "erfinv": lambda x: (x / 4).erfinv(),
    "sinc": lambda x: x.sinc(),
    "xlogy": lambda x: torch.xlogy(x.abs(), x.abs() + 1),
    "logit": lambda x: (x.sigmoid()).logit(),
    "softplus": lambda x: F.softplus(x),
    "softplus b": lambda x: F.softplus(x, 2, 0.5),
    "logsigmoid": lambda x: F.logsigmoid(x),
    "mish": lambda x: F.mish(x),
    "hardswish": lambda x: F.hardswish(x),
    "hardsigmoid": lambda x: F.hardsigmoid(x),
    "elu": lambda x: F.elu(x),
    "selu": lambda x: F.selu(x),
    "celu": lambda x: F.celu(x),
    "leaky": lambda x: F.leaky_relu(x),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.2])),
    "rrelu eval": lambda x: F.rrelu(x, training=False),
    "relu6": lambda x: F.relu6(x),
    "softsign": lambda x: F.softsign(x),
    "tanhshrink": lambda x: F.tanhshrink(x),
    "hardshrink": lambda x: F.hardshrink(x),
    "softshrink": lambda x: F.softshrink(x),
    "threshold": lambda x: F.threshold(x, 0.1, 20),
    "glu": lambda x: F.glu(x),
    "hardtanh": lambda x: F.hardtanh(x),
    "rsub": lambda x: 1 - x,
    "square": lambda x: x.square(),
    "sign": lambda x: x * x.sign(),
    "copysign": lambda x: torch.copysign(x, x.flip(1)),
    "signbit": lambda x: x * x.signbit(),
    "heaviside": lambda x: x * torch.heaviside(x.detach(), torch.tensor(0.5)),
    "fmax": lambda x: torch.fmax(x, 2 * x),
    "bitwise int": lambda x: ((x * 5).long() & 3) * x,
    "shift int": lambda x: ((x * 5).long() << 1) * x,
    "bitwise xor": lambda x: ((x * 5).long() ^ 3) * x,
    "polar pow": lambda x: 2.0**x,
    "float_power": lambda x: x.abs() ** 2.5,
    "deg2rad": lambda x: x.deg2rad(),
    "clip t": lambda x: torch.clip(x, -x.abs().detach(), None),
    "where idx": lambda x: x.masked_fill(x > 0, -1.0),
    "i0": lambda x: torch.special.i0(x),
    "ndtr": lambda x: torch.special.ndtr(x),
    "log_ndtr": lambda x: torch.special.log_ndtr(x),
}
CASES |= {
    # indexing
    "y[mask]=0": lambda x: assigned(x, x > 0, 0.0),
    "y[idx]=v": lambda x: assigned(x, torch.tensor([0, 2]), x[1] * 2),
    "y[:, idx]=": lambda x: assigned(x, (slice(None), torch.tensor([0, 2])), x[:, 3:5]),
    "y[idx twice]=": lambda x: assigned(x, torch.tensor([0, 2, 0]), x[1:] * 2),
    "y[argmax]=": lambda x: assigned(x, x.detach().argmax(1).remainder(4), x * 2),
    "y[::2]=": lambda x: assigned(x, slice(None, None, 2), x[:2] * 2),
    "scatter": lambda x: torch.zeros(4, 6).scatter(
        1, torch.tensor([[0, 2], [1, 3], [4, 5], [2, 1]]), x[:, :2]
    ),
    "scatter val": lambda x: x.scatter(1, torch.tensor([[0, 2], [1, 3], [4, 5], [2, 1]]), 3.0),
    "scatter_reduce sum": lambda x: x.scatter_reduce(1, torch.zeros(4, 2, dtype=torch.long), x[:, :2], "sum"),
    "scatter_reduce mean": lambda x: x.scatter_reduce(
        1, torch.zeros(4, 2, dtype=torch.long), x[:, :2], "mean"
    ),
    "scatter_reduce amax": lambda x: x.scatter_reduce(
        1, torch.zeros(4, 2, dtype=torch.long), x[:, :2], "amax"
    ),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([0, 2]), x[:, 3:5] * 2),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0, 2]), 1.5),
    "masked_scatter": lambda x: x.masked_scatter(torch.tensor([True, False] * 3), x * 2),
    "masked_select static": lambda x: x[:, torch.tensor([True, False, True] * 2)],
    "index sep": lambda x: x.reshape(4, 2, 3)[torch.tensor([0, 1]), :, torch.tensor([1, 2])],
    "embedding_bag": lambda x: F.embedding_bag(torch.tensor([[0, 1], [2, 3]]), x),
    "embedding max_norm none": lambda x: F.embedding(torch.tensor([0, 3]), x, padding_idx=0),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "repeat_interleave t": lambda x: x.repeat_interleave(torch.tensor([1, 2, 1, 0, 1, 1]), 1),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 3),
    "index_reduce": lambda x: x.index_reduce(0, torch.tensor([0, 1]), x[2:], "amax"),
    "unbind": lambda x: x.unbind(1)[2],
    "chunk": lambda x: x.chunk(3, 1)[1],
    "narrow": lambda x: x.narrow(1, 1, 3),
    "movedim": lambda x: x.reshape(4, 2, 3).movedim(0, 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x.reshape(1, 4, 2, 3), 2),
    # norms
    "weight_norm": nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
    "weight_norm old": nn.utils.weight_norm(nn.Linear(6, 3)),
    "spectral": nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3)).eval(),
    "instance": img(lambda y: F.instance_norm(y)),
    "lrn": img(lambda y: F.local_response_norm(y, 2)),
    "group": img(lambda y: F.group_norm(y.reshape(4, 2, 3, 6), 2)),
    # pooling
    "max ceil": img(lambda y: F.max_pool2d(y, 4, 3, ceil_mode=True)),
    "avg ceil": img(lambda y: F.avg_pool2d(y, 4, 3, ceil_mode=True)),
    "avg nopad": img(lambda y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False)),
    "adaptive avg": img(lambda y: F.adaptive_avg_pool2d(y, 4)),
    "adaptive max": img(lambda y: F.adaptive_max_pool2d(y, 3)),
    "adaptive max odd": img(lambda y: F.adaptive_max_pool2d(y, 4)),
    "max1d": lambda x: F.max_pool1d(x.reshape(4, 1, 6), 2),
    "avg1d": lambda x: F.avg_pool1d(x.reshape(4, 1, 6), 2),
    "adaptive avg1d": lambda x: F.adaptive_avg_pool1d(x.reshape(4, 1, 6), 4),
    "adaptive max1d": lambda x: F.adaptive_max_pool1d(x.reshape(4, 1, 6), 3),
    "lp_pool": img(lambda y: F.lp_pool2d(y.abs(), 2, 2)),
    "max no batch": lambda x: F.max_pool2d(x.reshape(1, 4, 6), 2),
    "max dil pad": img(lambda y: F.max_pool2d(y, 3, 1, 1, 2)),
    "max unpool": img(lambda y: F.max_unpool2d(*F.max_pool2d(y, 2, return_indices=True), [2, 2])),
    "max_pool3d": lambda x: F.max_pool3d(x.reshape(1, 1, 2, 2, 6), (2, 2, 2)),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 1, 2, 2, 6), (2, 2, 2)),
    "conv3d": lambda x: F.conv3d(x.reshape(1, 1, 2, 2, 6), torch.ones(2, 1, 2, 2, 3)),
    "pad reflect": img(lambda y: F.pad(y, (2, 1, 1, 1), "reflect")),
    "pad replicate": img(lambda y: F.pad(y, (2, 1, 1, 1), "replicate")),
    "pad circular": img(lambda y: F.pad(y, (2, 1, 1, 1), "circular")),
    "pad reflect1d": lambda x: F.pad(x.reshape(4, 1, 6), (2, 1), "reflect"),
    "pad replicate1d": lambda x: F.pad(x.reshape(4, 1, 6), (2, 1), "replicate"),
    "interp nearest": img(lambda y: F.interpolate(y, scale_factor=2)),
    "interp nearest-exact": img(lambda y: F.interpolate(y, size=(4, 9), mode="nearest-exact")),
    "interp nearest odd": img(lambda y: F.interpolate(y, size=(4, 9))),
    "interp bilinear": img(lambda y: F.interpolate(y, size=(4, 9), mode="bilinear")),
    "interp bilinear ac": img(lambda y: F.interpolate(y, size=(4, 9), mode="bilinear", align_corners=True)),
    "interp bicubic": img(lambda y: F.interpolate(y, size=(4, 9), mode="bicubic")),
    "interp antialias": img(lambda y: F.interpolate(y, size=(3, 3), mode="bilinear", antialias=True)),
    "interp linear": lambda x: F.interpolate(x.reshape(4, 1, 6), size=9, mode="linear"),
    "grid_sample": img(
        lambda y: F.grid_sample(
            y, torch.linspace(-1, 1, 2 * 4 * 9 * 2 * 2).reshape(4, 4, 9, 2)[:, :, :], align_corners=False
        )
    ),
    "affine_grid": lambda x: F.affine_grid(x.reshape(4, 2, 3), [4, 1, 3, 3], align_corners=False),
    "rnn": nn.RNN(6, 4, batch_first=True),
    "lstm": nn.LSTM(6, 4),
    "gru": nn.GRU(6, 4),
    "lstmcell": nn.LSTMCell(6, 4),
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 6, 6)),
    "conv_t": img(lambda y: F.conv_transpose2d(y, torch.ones(1, 2, 3, 3), stride=2)),
    "conv same": img(lambda y: F.conv2d(y, torch.ones(2, 1, 3, 3), padding="same")),
    "enc": nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=False),
    "enc gelu": nn.TransformerEncoder(
        nn.TransformerEncoderLayer(6, 2, 8, 0.0, activation="gelu", batch_first=True), 2
    ),
    "mha": (lambda m: lambda x: m(x, x, x)[0])(nn.MultiheadAttention(6, 2)),
    "mha w": (lambda m: lambda x: m(x, x, x))(nn.MultiheadAttention(6, 2)),
    "linalg.norm": lambda x: torch.linalg.norm(x),
    "matrix_power": lambda x: torch.linalg.matrix_power(x.T @ x, 3),
    "svd": lambda x: torch.linalg.svdvals(x),
    "unique": lambda x: torch.unique(x),
    "nonzero": lambda x: x[(x > 0).nonzero()[:, 0]],
    "int32": lambda x: x * torch.arange(6, dtype=torch.int32),
    "uint8": lambda x: x * torch.arange(6).to(torch.uint8),
    "double": lambda x: x.double().float(),
    "half": lambda x: x.half().float(),
    "complex": lambda x: torch.fft.fft(x).real,
}
# losses: x [4,6]
TARGETS = torch.tensor([0, 2, 5, 1])
T01 = (torch.arange(24).reshape(4, 6) % 2).float()
CASES |= {
    "ce": lambda x: F.cross_entropy(x, TARGETS) * x,
    "ce smooth": lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1) * x,
    "ce prob": lambda x: F.cross_entropy(x, T01 / 3) * x,
    "ce weight": lambda x: F.cross_entropy(x, TARGETS, weight=torch.arange(1.0, 7)) * x,
    "ce all ignored": lambda x: torch.nan_to_num(F.cross_entropy(x, TARGETS * 0 - 100)) + x,
    "ce some ignored": lambda x: F.cross_entropy(x, torch.tensor([0, -100, 2, -100])) * x,
    "bce": lambda x: F.binary_cross_entropy(x.sigmoid(), T01) * x,
    "bcel": lambda x: F.binary_cross_entropy_with_logits(x, T01, pos_weight=torch.arange(1.0, 7)) * x,
    "kl": lambda x: F.kl_div(x.log_softmax(1), T01.softmax(1), reduction="batchmean") * x,
    "l1": lambda x: F.l1_loss(x, T01) * x,
    "smooth_l1": lambda x: F.smooth_l1_loss(x, T01, beta=0.5) * x,
    "huber": lambda x: F.huber_loss(x, T01) * x,
    "hinge": lambda x: F.hinge_embedding_loss(x, T01 * 2 - 1) * x,
    "margin": lambda x: F.margin_ranking_loss(x, x.flip(1), T01 * 2 - 1) * x,
    "multi_margin": lambda x: F.multi_margin_loss(x, TARGETS) * x,
    "multilabel_margin": lambda x: F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1, 2, 4]] * 4)) * x,
    "multilabel_soft": lambda x: F.multilabel_soft_margin_loss(x, T01) * x,
    "triplet": lambda x: F.triplet_margin_loss(x, x.flip(1), x + 1) * x,
    "cosine emb": lambda x: F.cosine_embedding_loss(x, x.flip(1), torch.tensor([1, -1, 1, -1])) * x,
    "poisson": lambda x: F.poisson_nll_loss(x, T01) * x,
    "gauss": lambda x: F.gaussian_nll_loss(x, T01, x.exp()) * x,
    "soft_margin": lambda x: F.soft_margin_loss(x, T01 * 2 - 1) * x,
    "ctc": lambda x: (
        F.ctc_loss(
            x.reshape(4, 1, 6).log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])
        )
        * x
    ),
    "nll2d": lambda x: F.nll_loss(x.reshape(1, 6, 2, 2).log_softmax(1), TARGETS.reshape(1, 2, 2)) * x,
    "mse": lambda x: F.mse_loss(x, T01) * x,
}

# more functions
CASES |= {
    "grid cubic": lambda x: F.grid_sample(x.reshape(1, 1, 4, 6), torch.zeros(1, 2, 2, 2), mode="bicubic"),
    "trapz": lambda x: torch.trapezoid(x),
    "vecdot": lambda x: torch.linalg.vecdot(x, x),
    "roll": lambda x: x.roll(1, 1),
    "pairwise": lambda x: F.pairwise_distance(x, x.flip(0)),
    "chain_matmul": lambda x: torch.linalg.multi_dot([x, x.T, x]),
    "index_add": lambda x: x.index_add(1, torch.tensor([1, 2]), x[:, :2]),
    "put": lambda x: x.put(torch.tensor([0, 3]), x[0, :2]),
    "nansum": lambda x: x.nansum(1),
    "nanmean": lambda x: x.nanmean(1),
    "std_mean": lambda x: torch.std_mean(x, 1),
    "gradient": lambda x: torch.gradient(x, dim=1)[0],
    "as_strided": lambda x: x.as_strided((2, 3), (6, 1)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "hsplit": lambda x: x.hsplit(2)[0],
    "column_stack": lambda x: torch.column_stack([x, x]),
    "dstack": lambda x: torch.dstack([x, x]),
    "tile": lambda x: x.tile(2, 2),
    "clamp t": lambda x: x.clamp(min=x.flip(0)),
    "rms": lambda x: F.rms_norm(x, (6,)),
    "gqa": lambda x: F.scaled_dot_product_attention(
        x.reshape(1, 2, 4, 3), x.reshape(1, 2, 4, 3), x.reshape(1, 2, 4, 3), is_causal=True
    ),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.0),
    "clip grad": lambda x: x / x.norm().clamp(min=1),
    "where": lambda x: torch.where(x > 0, x, -x),
    "sgn": lambda x: x.sgn() * x,
    "pow t": lambda x: x.exp() ** x,
    "rsqrt": lambda x: x.exp().rsqrt(),
    "erf": lambda x: x.erf(),
    "entr": lambda x: torch.special.entr(x.exp()),
    "log1p": lambda x: x.exp().log1p(),
    "expm1": lambda x: x.expm1(),
    "sigmoid": lambda x: x.sigmoid(),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, 3),
    "expand": lambda x: x[None].expand(2, 4, 6),
    "squeeze": lambda x: x[None].squeeze(0),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[0, :4] * 2),
}
CASES |= FACTORS | CANNOT


REFUSED = {
    *CANNOT,
    "floor_divide f",
    "vander",
    "mode",
    "renorm",
    "rrelu eval",
    "bitwise int",
    "shift int",
    "bitwise xor",
    "i0",
    "log_ndtr",
    "masked_select static",
    "repeat_interleave t",
    "svd",
    "unique",
    "nonzero",
    "uint8",
    "double",
    "half",
    "complex",
}
