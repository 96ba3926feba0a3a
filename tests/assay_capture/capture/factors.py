"""Factors of matrices, and gamma functions, of a tensor [4, 6], by the names of what they try."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from .refused import Function


def definite(x: torch.Tensor) -> torch.Tensor:
    """Return a positive definite matrix [6, 6]."""
    return x.T @ x + torch.eye(6)


def turned(x: torch.Tensor) -> torch.Tensor:
    """Return two matrices [2, 4, 3] whose elimination exchanges rows."""
    return torch.stack([x[:, :3], x[:, 3:].flip(0)])


FACTORS: dict[str, Function] = {
    "lgamma": lambda x: (x.abs() + 1).lgamma(),
    "digamma": lambda x: (x.abs() + 1).digamma(),
    "det": lambda x: torch.linalg.det(x.T @ x + torch.eye(6)),
    "inv": lambda x: torch.linalg.inv(x.T @ x + torch.eye(6)),
    "solve": lambda x: torch.linalg.solve(x.T @ x + torch.eye(6), x.T),
    "cholesky": lambda x: torch.linalg.cholesky(x.T @ x + torch.eye(6)),
    "matrix_exp": lambda x: torch.matrix_exp((x.T @ x) / 10),
    "qr": lambda x: torch.linalg.qr(x)[1],
    "slogdet": lambda x: torch.linalg.slogdet(x.T @ x + torch.eye(6))[1],
    "polygamma": lambda x: torch.polygamma(1, x.exp()),
    "cov": lambda x: torch.cov(x),
    "corrcoef": lambda x: torch.corrcoef(x),
    "addbmm": lambda x: torch.addbmm(torch.zeros(4, 4), x[None], x.T[None]),
    "multigammaln": lambda x: torch.special.multigammaln(x.exp() + 2, 2),
    "triangular": lambda x: torch.linalg.solve_triangular(x[:, :4].tril() + 3 * torch.eye(4), x, upper=False),
    "cholesky_solve": lambda x: torch.cholesky_solve(x, torch.eye(4) + x @ x.T),
    "lu": lambda x: torch.linalg.lu(x)[2],
    "det of rows": lambda x: torch.linalg.det(turned(x)[:, :3]),
    "det of columns": lambda x: torch.linalg.det(turned(x)[:, :3].mT),
    "logdet": lambda x: torch.logdet(definite(x)),
    "solve left": lambda x: torch.linalg.solve(definite(x), x, left=False),
    "solve a vector": lambda x: torch.linalg.solve(x[:, :4] + 3 * torch.eye(4), x[:, 5]),
    "lu of rows": lambda x: torch.linalg.lu(turned(x))[1:],
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x[:, :4]), x, adjoint=True),
    "inverse of a batch": lambda x: torch.linalg.inv(turned(x)[:, 1:] + 2 * torch.eye(3)),
    "upper cholesky": lambda x: torch.linalg.cholesky(definite(x), upper=True),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(definite(x))),
    "triangular right": lambda x: torch.linalg.solve_triangular(
        definite(x).triu(), x, upper=True, left=False
    ),
    "unitriangular": lambda x: torch.linalg.solve_triangular(
        (x.T @ x / 9).tril(), x.T, upper=False, unitriangular=True
    ),
    "q of qr": lambda x: torch.linalg.qr(turned(x))[0],
    "orthogonal": lambda x: torch.linalg.matrix_exp((x.T @ x).triu(1) - (x.T @ x).triu(1).T),
    "matrix_exp of large": lambda x: torch.linalg.matrix_exp(-4 * definite(x)),
    "matrix_power": lambda x: torch.linalg.matrix_power(definite(x), -2),
    "normal": lambda x: torch.distributions.MultivariateNormal(
        torch.zeros(6), definite(x), validate_args=False
    ).log_prob(x),
    "lgamma below": lambda x: (x - 2.3).lgamma(),
    "lgamma above": lambda x: (9 * x.abs() + 5).lgamma(),
    "digamma below": lambda x: (x - 2.3).digamma(),
    # NOTE: on both sides of zero, and away from the poles, where the last bit of an argument decides.
    "trigamma": lambda x: torch.polygamma(1, (5 * x).floor() + 0.25 + 0.5 * x.sigmoid()),
    "dirichlet": lambda x: torch.distributions.Dirichlet(x.exp(), validate_args=False).log_prob(
        torch.full((4, 6), 1 / 6)
    ),
    "gamma density": lambda x: torch.distributions.Gamma(x.exp(), x.exp(), validate_args=False).log_prob(
        x.exp() + 1
    ),
    "ctc of a list": lambda x: torch.ops.aten.ctc_loss.IntList(
        x.log_softmax(1).reshape(4, 1, 6), torch.tensor([1, 1]), [4], [2], zero_infinity=True
    ),
    "ctc of rows": lambda x: F.ctc_loss(
        torch.stack([x, x.flip(1)], 1).log_softmax(2),
        torch.tensor([[1, 1], [3, 0]]),
        torch.tensor([4, 3]),
        torch.tensor([2, 1]),
        reduction="none",
    ),
    "ctc of scores": lambda x: F.ctc_loss(
        x, torch.tensor([2]), torch.tensor(4), torch.tensor(1), reduction="sum"
    ),
    "ctc without labels": lambda x: F.ctc_loss(
        x.log_softmax(1).reshape(4, 1, 6), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([0])
    ),
    "ctc too long": lambda x: (
        torch.ops.aten.ctc_loss.IntList(
            x.log_softmax(1).reshape(4, 1, 6), torch.tensor([[1, 1, 1]]), [4], [3], 0, 1, True
        )
        + x[0]
    ),
    "scatter_reduce prod": lambda x: torch.ones(4, 3).scatter_reduce(
        1, torch.arange(6).expand(4, 6) % 3, x, "prod"
    ),
    "cov weights": lambda x: torch.cov(x, aweights=torch.arange(1.0, 7), fweights=torch.arange(6)),
    "sgn": lambda x: x.sgn() * x,
}
