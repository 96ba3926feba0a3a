"""Factors of matrices: LU, Cholesky and QR, and what follows from them: solutions, inverses, determinants.

Each is the elimination of the textbooks, one column after the other, of all matrices of a batch at once. Gradients are
PyTorch's own formulas, which need solutions with triangular matrices only. Programs cannot fail: of a matrix without
them, where PyTorch raises, they are infinite, or not numbers.

Source: G. Golub, C. Van Loan, Matrix Computations, 4th edition, sections 3.1, 3.4, 4.2 and 5.2; signs as in LAPACK.
"""

# ruff: noqa: ARG001  (a function has the signature of its ATen operator)

from __future__ import annotations

import torch

from ..errors import Unsupported
from .registry import decomposes

aten = torch.ops.aten
Tensor = torch.Tensor

MOST = 64
"""Columns: each takes some 10 to 20 operators of a program."""


def _check(columns: int) -> None:
    if columns > MOST:
        raise Unsupported(
            f"factors of a matrix of {columns} columns",
            f"factorise at most {MOST}, or use a fixed number of iterations of matrix products (Newton-Schulz)",
        )


def _is(n: int, k: int) -> Tensor:
    return torch.arange(n) == k


def _no_info(a: Tensor) -> Tensor:
    return torch.zeros(a.shape[:-2], dtype=torch.int32)


# ------------------------------------------------------------------------------------------------------------ LU


def _lu(a: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """a [..., M, N] -> both factors in one matrix, and the rows exchanged: i32 [..., min(M, N)], counted from 1.

    The pivot is the largest element of its column.
    """
    m, n = a.shape[-2:]
    _check(min(m, n))
    rows, columns, pivots = torch.arange(m), torch.arange(n), []
    for k in range(min(m, n)):
        place = torch.full(a.shape[:-2], k)
        if pivot and k + 1 < m:
            place = a[..., k:, k].abs().argmax(-1) + k
            order = torch.where(
                rows == k, place.unsqueeze(-1), torch.where(rows == place.unsqueeze(-1), k, rows)
            )
            a = a.gather(-2, order.unsqueeze(-1).expand(a.shape))
        pivots.append(place + 1)
        corner, column = a[..., k, k].unsqueeze(-1), a[..., :, k]
        share = torch.where((rows > k) & (corner != 0), column / corner, 0.0).unsqueeze(-1)
        left = a - share * torch.where(columns > k, a[..., k, :], 0.0).unsqueeze(-2)
        a = torch.where((rows > k).unsqueeze(-1) & (columns == k) & (corner != 0).unsqueeze(-1), share, left)
    found = torch.stack(pivots, -1) if pivots else torch.zeros((*a.shape[:-2], 0), dtype=torch.int64)
    return a, found.to(torch.int32)


def _order(pivots: Tensor, m: int) -> Tensor:
    """Return the rows in the order that the exchanges leave: i64 [..., M]."""
    rows = torch.arange(m)
    order = rows.expand((*pivots.shape[:-1], m))
    for k in range(pivots.shape[-1]):
        place = (pivots[..., k].long() - 1).unsqueeze(-1)
        swapped = torch.where(rows == k, place, torch.where(rows == place, k, rows.expand(order.shape)))
        order = order.gather(-1, swapped)
    return order


def _solved(a: Tensor, b: Tensor, upper: bool, unit: bool = False) -> Tensor:
    """Solve a x = b for a triangular a [..., N, N], b [..., N, R], one row of x after the other."""
    n = a.shape[-1]
    _check(n)
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b, found = a.expand(*shape, n, n), b.expand(*shape, *b.shape[-2:]), []
    for k in reversed(range(n)) if upper else range(n):
        row = b[..., -1:, :] if upper else b[..., :1, :]
        row = row if unit else row / a[..., k : k + 1, k : k + 1]
        found.append(row)
        rest, column = (b[..., :-1, :], a[..., :k, k]) if upper else (b[..., 1:, :], a[..., k + 1 :, k])
        b = rest - column.unsqueeze(-1) * row
    return torch.cat(found[::-1] if upper else found, -2) if found else b


def _lu_solved(lu: Tensor, pivots: Tensor, b: Tensor) -> Tensor:
    order = _order(pivots, lu.shape[-1])
    shape = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = b.expand(*shape, *b.shape[-2:])
    moved = b.gather(-2, order.unsqueeze(-1).expand(b.shape))
    return _solved(lu, _solved(lu, moved, False, True), True)


@decomposes(aten.linalg_lu_factor_ex.default)
def lu_factor(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    return *_lu(a, pivot), _no_info(a)


@decomposes(aten.lu_unpack.default)
def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    m, n = lu.shape[-2:]
    k, none = min(m, n), torch.zeros(0, dtype=lu.dtype)
    places = _order(pivots, m) if unpack_pivots else None
    exchanged = (
        none if places is None else (torch.arange(m).unsqueeze(-1) == places.unsqueeze(-2)).to(lu.dtype)
    )
    if not unpack_data:
        return exchanged, none, none
    lower = lu[..., :k].tril(-1) + torch.eye(m, k, dtype=lu.dtype)
    return exchanged, lower, lu[..., :k, :].triu()


@decomposes(aten.linalg_lu.default)
def lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    return lu_unpack(*_lu(a, pivot), unpack_pivots=pivot)


@decomposes(aten.linalg_lu_solve.default)
def lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if not left:
        return lu_solve(factors, pivots, b.mT, adjoint=not adjoint).mT
    if not adjoint:
        return _lu_solved(factors, pivots, b)
    x = _solved(factors.mT, _solved(factors.mT, b, False), True, True)
    order, n = _order(pivots, factors.shape[-1]), factors.shape[-1]
    place = (torch.arange(n).unsqueeze(-1) == order.unsqueeze(-2)).long()
    back = (place * torch.arange(n)).sum(-1)
    return x.gather(-2, back.unsqueeze(-1).expand(x.shape))


@decomposes(aten.linalg_inv_ex.default)
def inverse(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    n = a.shape[-1]
    return _lu_solved(*_lu(a), torch.eye(n, dtype=a.dtype).expand(a.shape)), _no_info(a)


@decomposes(aten._linalg_solve_ex.default)
def solve(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots = _lu(a)
    is_vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    given = b.unsqueeze(-1) if is_vector else b
    x = lu_solve(factors, pivots, given, left=left or is_vector)
    return x.squeeze(-1) if is_vector else x, factors, pivots, _no_info(a)


def _sign_of(pivots: Tensor) -> Tensor:
    """Return the sign of the exchange of rows, f32."""
    moved = (pivots != torch.arange(1, pivots.shape[-1] + 1)).float().sum(-1)
    return 1 - 2 * (moved - 2 * (moved / 2).floor())


def _lu_of_determinant(a: Tensor) -> tuple[Tensor, Tensor]:
    """NOTE: PyTorch's gradient expects the factors of the transposed matrix if the matrix is contiguous."""
    return _lu(a.mT if a.is_contiguous() else a)


@decomposes(aten._linalg_det.default)
def determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    factors, pivots = _lu_of_determinant(a)
    return factors.diagonal(0, -2, -1).prod(-1) * _sign_of(pivots), factors, pivots


@decomposes(aten._linalg_slogdet.default)
def log_determinant(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    factors, pivots = _lu_of_determinant(a)
    diagonal = factors.diagonal(0, -2, -1)
    sign = diagonal.sign().prod(-1) * _sign_of(pivots)
    return sign, diagonal.abs().log().sum(-1), factors, pivots


# --------------------------------------------------------------------------------------------- triangular, Cholesky


@decomposes(aten.linalg_solve_triangular.default)
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not left:
        return _solved(a.mT, b.mT, not upper, unitriangular).mT
    return _solved(a, b, upper, unitriangular)


@decomposes(aten.triangular_solve.default)
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    given = a.mT if transpose else a
    return _solved(given, b, upper != transpose, unitriangular), a.expand(
        *b.shape[:-2], *a.shape[-2:]
    ).clone()


def _cholesky(a: Tensor) -> Tensor:
    """Return the lower factor. Reads the lower triangle only."""
    n = a.shape[-1]
    _check(n)
    columns = []
    for k in range(n):
        corner = a[..., :1, :1].sqrt()
        column = torch.cat([corner, a[..., 1:, :1] / corner], -2)
        columns.append(torch.cat([torch.zeros(*a.shape[:-2], k, 1, dtype=a.dtype), column], -2))
        below = column[..., 1:, :]
        a = a[..., 1:, 1:] - below * below.mT
    return torch.cat(columns, -1) if columns else a


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    return _cholesky(a.mT).mT if upper else _cholesky(a), _no_info(a)


@decomposes(aten.cholesky.default)
def old_cholesky(a: Tensor, upper: bool = False) -> Tensor:
    return cholesky(a, upper=upper)[0]


@decomposes(aten.cholesky_solve.default)
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    return _solved(lower.mT, _solved(lower, b, False), True)


@decomposes(aten.cholesky_inverse.default)
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape), factor, upper)


# ------------------------------------------------------------------------------------------------------------ QR


def _reflections(a: Tensor) -> tuple[Tensor, Tensor]:
    """a [..., M, N] -> R with the vectors of the reflections below its diagonal, and their factors [..., min(M, N)]."""
    m, n = a.shape[-2:]
    _check(min(m, n))
    rows, columns, taus = torch.arange(m), torch.arange(n), []
    for k in range(min(m, n)):
        first, below = a[..., k, k], torch.where(rows > k, a[..., :, k], 0.0)
        rest = (below * below).sum(-1)
        size = (first * first + rest).sqrt()
        is_done = rest == 0
        end = torch.where(is_done, first, torch.where(first < 0, size, -size))
        tau = torch.where(is_done, 0.0, (end - first) / end)
        vector = below / torch.where(is_done, 1.0, first - end).unsqueeze(-1) + _is(m, k).to(a.dtype)
        taus.append(tau)
        change = tau.unsqueeze(-1) * (vector.unsqueeze(-1) * a).sum(-2)
        reflected = a - vector.unsqueeze(-1) * torch.where(columns > k, change, 0.0).unsqueeze(-2)
        own = torch.where(rows > k, vector, torch.where(rows == k, end.unsqueeze(-1), a[..., :, k]))
        a = torch.where(columns == k, own.unsqueeze(-1), reflected)
    return a, torch.stack(taus, -1) if taus else torch.zeros((*a.shape[:-2], 0), dtype=a.dtype)


def _product(vectors: Tensor, taus: Tensor, columns: int) -> Tensor:
    """Return the first columns of the product of reflections [..., M, columns]."""
    m = vectors.shape[-2]
    found = torch.eye(m, columns, dtype=vectors.dtype).expand(*vectors.shape[:-2], m, columns)
    for k in reversed(range(taus.shape[-1])):
        vector = torch.where(torch.arange(m) > k, vectors[..., :, k], 0.0) + _is(m, k).to(vectors.dtype)
        change = taus[..., k].unsqueeze(-1) * (vector.unsqueeze(-1) * found).sum(-2)
        found = found - vector.unsqueeze(-1) * change.unsqueeze(-2)
    return found


@decomposes(aten.linalg_qr.default)
def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    m, n = a.shape[-2:]
    packed, taus = _reflections(a)
    if mode == "r":
        return torch.zeros(0, dtype=a.dtype), packed[..., : min(m, n), :].triu()
    size = m if mode == "complete" else min(m, n)
    return _product(packed, taus, size), packed[..., :size, :].triu()


@decomposes(aten.geqrf.default)
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    return _reflections(a)


@decomposes(aten.linalg_householder_product.default)
def householder_product(vectors: Tensor, taus: Tensor) -> Tensor:
    _check(taus.shape[-1])
    return _product(vectors, taus, vectors.shape[-1])


@decomposes(aten.ormqr.default)
def ormqr(vectors: Tensor, taus: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Multiply by the whole product of reflections."""
    _check(taus.shape[-1])
    product = _product(vectors, taus, vectors.shape[-2])
    product = product.mT if transpose else product
    return product @ other if left else other @ product


# -------------------------------------------------------------------------------------------------- exponential

_SQUARINGS = 20
_TERMS = 12


@decomposes(aten.linalg_matrix_exp.default)
def matrix_exp(a: Tensor) -> Tensor:
    """Halve until the norm is at most 1/2, add the first terms of the series, and square as often.

    A norm above 2^19 is not halved enough, but its exponential is infinite unless its terms cancel.
    """
    n = a.shape[-1]
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    scale, halvings = torch.ones_like(norm), []
    for _ in range(_SQUARINGS):
        halvings.append(norm * scale > 0.5)
        scale = torch.where(halvings[-1], scale * 0.5, scale)
    small, total = a * scale, torch.eye(n, dtype=a.dtype)
    for k in range(_TERMS, 0, -1):
        total = torch.eye(n, dtype=a.dtype) + small @ total / k
    for halved in reversed(halvings):
        total = torch.where(halved, total @ total, total)
    return total.expand(a.shape)
