"""Built-in recipes by name; here those of scikit-learn's handwritten digits (1,797 images of 8 x 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from torch import nn

from referee_py.commit.tensor import Array

from . import recipes_models as models
from .errors import CaptureError
from .optimizers import SGD, Adam
from .recipe import Recipe


def digits(image: bool) -> Mapping[str, Array]:
    """Pixels in [0, 1], exact in f32 (they are sixteenths), and classes 0..9."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise CaptureError("the digits recipes need scikit-learn; install the extra [demo]") from error
    pixels, classes = load_digits(return_X_y=True)
    shape = (-1, 1, 8, 8) if image else (-1, 64)
    return {"x": (pixels / 16).astype(np.float32).reshape(shape), "y": classes.astype(np.int64)}


def digits_mlp(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """64-128-10, SGD with momentum."""
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return Recipe(
        name="digits-mlp",
        module=module,
        loss=nn.functional.cross_entropy,
        optimizer=SGD(lr=0.1, momentum=0.9),
        data=digits(image=False),
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def digits_mlp_adam(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """64-128-10, AdamW with a linear warm-up and decay."""
    ramp = np.minimum(np.arange(1, steps + 1) / max(1, steps // 10), 1.0)
    fall = np.linspace(1.0, 0.1, steps)
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return Recipe(
        name="digits-mlp-adam",
        module=module,
        loss=nn.functional.cross_entropy,
        optimizer=Adam(lr=(3e-3 * ramp * fall).tolist(), weight_decay=1e-2, decoupled=True),
        data=digits(image=False),
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


def digits_cnn(steps: int = 200, batch_size: int = 32, seed: int = 0) -> Recipe:
    """Two convolutions, maximum and average pooling; Adam."""
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    return Recipe(
        name="digits-cnn",
        module=module,
        loss=nn.functional.cross_entropy,
        optimizer=Adam(lr=1e-2),
        data=digits(image=True),
        steps=steps,
        batch_size=batch_size,
        seed=seed,
    )


BUILTIN: dict[str, Callable[..., Recipe]] = {
    "digits-mlp": digits_mlp,
    "digits-mlp-adam": digits_mlp_adam,
    "digits-cnn": digits_cnn,
    "logistic": models.logistic,
    "vgg11": models.vgg11,
    "resnet-tiny": models.resnet_tiny,
    "resnet50": models.resnet50,
    "gpt2-tiny": models.gpt2_tiny,
    "gpt2-small": models.gpt2_small,
    "llama-100m": models.llama_100m,
    "distilbert-tiny": models.distilbert_tiny,
    "distilbert": models.distilbert,
    "llama-tiny": models.llama_tiny,
    "llama-lora-tiny": models.llama_lora_tiny,
}
