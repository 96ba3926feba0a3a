"""A program of two operators that runs fast and long: x becomes factor * x, and the loss is the sum of x."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from repops.opset import F32

from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.terms import Terms
from trainer_node.local.bundle import Bundle

VECTOR, SCALAR = TensorType(F32, (4,)), TensorType(F32, ())


def growing(steps: int, strides: tuple[int, ...], factor: float = 1.0, begin: float = 1.0) -> Bundle:
    x, by = np.full(4, begin, np.float32), np.full(4, factor, np.float32)
    nodes = (
        Structure.make("mul", [Operand(Kind.SLOT, 0), Operand(Kind.CONSTANT, 0)], [VECTOR]),
        Structure.make("sum", [Operand(Kind.NODE, 0)], [SCALAR], dims=(0,), keepdim=0),
    )
    tensors = (TensorDescriptor.of(by),), (TensorDescriptor.of(x),)
    program = Program(nodes, (SlotSource(0, 0),), *tensors)
    labels = {"nodes": ["x", "loss"], "slots": ["x"], "constants": ["by"], "metrics": {"loss": [1, 0]}}
    return Bundle("growing", program, Terms.of(program, steps, strides), (by,), (x,), labels)


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    """Start `assay program run` in a process of its own."""
    command = [sys.executable, "-m", "trainer_node.cli", "program", "run", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ, **options)  # type: ignore[call-overload]


def stop_at(
    process: subprocess.Popen[str], metrics: Path, step: int, number: signal.Signals
) -> tuple[str, str]:
    """Send a signal once the file of metrics has that many lines, or at once if ``step`` is zero; return the output."""
    wait(lambda: process.poll() is not None or step == 0 or (metrics.exists() and lines(metrics) >= step))
    process.send_signal(number)
    return process.communicate(timeout=300)


def lines(metrics: Path) -> int:
    return metrics.read_bytes().count(b"\n")


def wait(for_: Callable[[], bool]) -> None:
    while not for_():
        time.sleep(0.002)
