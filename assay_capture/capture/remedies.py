"""Remedies: replacements for operators of PyTorch that no program can have, or that have no lowering yet."""

from __future__ import annotations

_WHERE = "a program is one graph for all batches: use torch.where in place of a Python branch or a mask"
OF_VALUES = {
    "pack_padded": "give the layer the padded batch, and take each row's last state with gather",
    "nonzero": "a program has one shape for all batches: use torch.where, and a mask in place of a selection",
    "masked_select": "a program has one shape for all batches: use torch.where, and a mask in place of a selection",
    "unique": "a program has one shape for all batches: sort, and compare neighbours",
    "bincount": "use torch.nn.functional.one_hot with a number of classes, and sum",
}
WITHOUT = {
    "embedding_renorm": "take max_norm off the embedding, and normalise its weight in forward()",
    "sparse": "use dense tensors, and sparse=False for an embedding",
    "_fft": "write the transform as a product with the real and the imaginary matrix",
    "linalg_svd": "use torch.linalg.norm, or a fixed number of power iterations",
    "linalg_eig": "use a fixed number of power iterations",
    "linalg": "use a fixed number of iterations of matrix products (power, Newton-Schulz), or compute it beforehand",
    "cholesky": "use a fixed number of iterations of matrix products (power, Newton-Schulz), or compute it beforehand",
    "quantize": "quantise after training, or write the rounding with torch.round",
}
OF_ERRORS = {
    ".numpy()": "write it with PyTorch's functions: a program sees nothing that leaves PyTorch",
    "cuda": "leave tensors where they are: whoever runs the program chooses the device",
    "does not require grad": "the loss does not depend on a parameter: take away detach() and no_grad()",
    "same reduction dim": "the width of the data is not the layer's",
    "derivative for": "PyTorch has no gradient of it: use another function, or detach() what it gets",
    "modified by an inplace operation": "write into a new tensor, or use torch.where",
    "sparse": "use dense tensors, and sparse=False for an embedding",
    "must match": "change a size, or add a dimension with unsqueeze()",
    "backward through the graph a second time": "leave backward() out: the loss function returns the loss",
}


def of_values(operator: str) -> str:
    """Return the remedy for an operator whose result is a Python number, or has a shape that depends on values."""
    return next((remedy for part, remedy in OF_VALUES.items() if part in operator), _WHERE)


def without_lowering(operator: str) -> str | None:
    """Return the remedy for an operator that has no lowering; None if only a general one is known."""
    return next((remedy for part, remedy in WITHOUT.items() if part in operator), None)


def of_error(message: str) -> str:
    """Return what to add to an error of PyTorch's: a remedy in brackets, or nothing."""
    return next((f" ({remedy})" for part, remedy in OF_ERRORS.items() if part in message), "")
