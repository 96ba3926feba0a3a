# %% [markdown]
# # A tour: train, audit, be cheated, and see where
#
# You train a small network, have the run audited, meet a liar who changes one number by one unit in the last place,
# and see step, operator and element of the lie. At the end two trainers and the liar meet on a chain of your own.
#
# It needs a clone in which `make setup` has run, and the Python of its `.venv`. In the folder of the clone:
#
# - as a notebook: `.venv/bin/pip install jupyterlab`, then `.venv/bin/jupyter lab examples/tour.ipynb`;
# - as a script, which prints the same and takes some two minutes: `.venv/bin/python examples/tour.py`.
#
# Run the cells in their order. They download nothing, and nothing leaves this machine. The last cell takes a minute or
# two, the others seconds.

# %%
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from torch import nn

from assay_capture.capture import Adam, Recipe, build
from assay_lab.daemons import lying
from assay_lab.faults import Fault, Lie
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.run.modes import backend_here

made = tempfile.TemporaryDirectory(prefix="assay-tour-")
folder = Path(made.name)


def assay(command: str) -> None:
    """Run an `assay` command in the folder of this tour, and show what it writes, and an exit code that is not 0."""
    print(f"$ assay {command}")
    words = [sys.executable, "-m", "trainer_node.cli", *shlex.split(command)]
    # A kernel asks for colours, and would get a line for each turn of a spinner.
    plain = {
        name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")
    }
    with subprocess.Popen(
        words, cwd=folder, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
    if process.returncode:
        print(f"exit code {process.returncode}")


# %% [markdown]
# ## 1. A network to train
#
# Two moons, told apart by 162 parameters. A recipe is the module, the loss, the optimizer and the data, as in a loop
# of PyTorch. `build` captures one training step as a flat graph of operators, compares it with eager PyTorch, and the
# bundle that it writes is all that anybody needs to repeat the training. Every ten steps there will be a checkpoint.

# %%
draw = np.random.Generator(np.random.PCG64(7))
angle, side = draw.uniform(0, np.pi, 512), draw.integers(0, 2, 512)
sign = 1 - 2 * side
points = np.stack([np.cos(angle) * sign + side, np.sin(angle) * sign + side / 2], axis=1)
points += draw.normal(0, 0.1, points.shape)

bundle = build(
    Recipe(
        name="moons",
        module=nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)),
        loss=nn.functional.cross_entropy,
        optimizer=Adam(lr=1e-2),
        data={"x": points.astype(np.float32), "y": side.astype(np.int64)},
        steps=40,
        batch_size=32,
        strides=(10, 1),
    )
)
bundle.write(folder / "moons")
print(f"{len(bundle.program.nodes)} operators in a step, program {bundle.terms.hash().hex()}")

# %% [markdown]
# ## 2. Train it
#
# The run root at the end commits to every checkpoint of the run. Whoever trains this bundle, on any machine and with
# any number of threads, gets the same 32 bytes.

# %%
assay("program run moons --out honest --keep all")

# %% [markdown]
# ## 3. Have it audited
#
# An auditor needs the folder of the run and nothing else. It replays each interval from the state before it, and
# compares the checkpoint after it: four times `MATCH`.

# %%
assay("audit honest --intervals all --out findings")

# %% [markdown]
# ## 4. Be cheated
#
# A liar trains the same bundle. In step 23 it moves one weight by one unit in the last place, and continues from there.
# It is consistent: it publishes what it has computed. Loss and accuracy show nothing.

# %%
STEP = 23
lie = Lie(Fault.WRONG_OP_OUTPUT, STEP)
backend = backend_here(bundle.terms.mode, "cpu", "torch", None)
with open_run(
    folder / "liar", bundle.terms, "repops-f32", resume=False, keep_s=60, keeps=KeepRule(every=1)
) as run:
    replay = lying(lie)(bundle, backend, run.store, run)
    run.publish(bundle, replay.train())
    # The liar's trees and tensors of that interval, as `assay program publish` shows them to whoever asks.
    run.show(replay, 3, STEP, bundle.program.slots[0].node)
print("the liar has published its run")

# %% [markdown]
# ## 5. See where
#
# The audit of the liar's run finds its third interval wrong, and walks down the liar's own trees as a dispute would:
# to the step, the operator, the element, and both numbers. An exit code of 1 says that something differs.

# %%
assay("audit liar --intervals all --out findings-of-the-liar")

# %% [markdown]
# The same from two runs side by side, with the names that the program has for its operators:

# %%
assay("run diff honest liar --bundle moons")

# %% [markdown]
# ## 6. The dispute on a chain
#
# The same bundle as a paid job, with the same lie. The command starts a chain on this machine (anvil, which `make
# setup` installs), deploys the contracts, and starts an honest trainer, the liar, a challenger and two verifiers. The
# referee sees no weight: it walks from the two run roots to step 23 and to one operator, whose output the verifiers
# compute again. Then the liar's stake is gone, and the last lines check that everything is as it must be.

# %% tags=["chain"]
assay(f"demo --bundle moons --fault-step {STEP} --folder demo")

# %% [markdown]
# ## 7. Next
#
# `docs/tutorials/train.md` trains a model of your own, `docs/tutorials/audit.md` samples intervals, and
# `docs/tutorials/node.md` takes jobs of others. `assay demo --explorer` shows such a dispute in web pages.
