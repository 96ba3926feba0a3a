"""Peak memory of training steps, in a separate process: python -m benchmarks.peak_memory ours|eager NAME [BUNDLE]

Prints the maximal bytes of three steps, beyond those of the imports: parameters, optimizer, activations and gradients.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

STEPS = 3
SAMPLE_S = 0.002


def peak_bytes(whose: str, name: str, bundle: Path) -> int:
    """Return the peak, measured in a new process."""
    command = [sys.executable, "-m", "benchmarks.peak_memory", whose, name, str(bundle)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(run.stdout.split()[-1])


def _held() -> int:
    """Return the anonymous memory of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) << 10


class _Sampler(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.done = 0, False

    def run(self) -> None:
        while not self.done:
            self.peak = max(self.peak, _held())
            time.sleep(SAMPLE_S)


def _eager(name: str) -> tuple[int, Callable[[], object]]:
    import torch

    from .eager import eager_step
    from .recipes import built_in

    torch.set_num_threads(1)
    base = _held()
    return base, eager_step(built_in(name, steps=STEPS + 1), keep=False)


def _ours(bundle: Path) -> tuple[int, Callable[[], object]]:
    import repops

    from referee_py.execute import FastExecutor, State
    from trainer_node.local.bundle import Bundle

    base = _held()
    repops.set_num_threads(1)
    read = Bundle.read(bundle)
    executor = FastExecutor(read.program, read.constants, repops.backend("cpu"))
    state, _ = executor.step(State.of(0, read.initial), False)

    def one() -> None:
        nonlocal state
        state.offer()
        state, _ = executor.step(state, False)

    return base, one


def main() -> None:
    whose, name, bundle = sys.argv[1:4]
    base, step = _eager(name) if whose == "eager" else _ours(Path(bundle))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # releases the remains of loading
    sampler = _Sampler()
    sampler.start()
    for _ in range(STEPS):
        step()
    sampler.done = True
    sampler.join()
    print(sampler.peak - base)


if __name__ == "__main__":
    main()
