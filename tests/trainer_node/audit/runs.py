"""Published runs of a program with two operators, honest and not, and the accounts of auditors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from eth_account import Account
from eth_account.signers.local import LocalAccount

from referee_py.program.terms import Terms
from trainer_node.audit.location import Location
from trainer_node.audit.published import PublishedRun
from trainer_node.bundle import Bundle
from trainer_node.devices import backend_of
from trainer_node.local_run import LocalRun
from trainer_node.run_folder import Retention, open_run
from trainer_node.store import Store

from ..cli.growing import growing


def bundle_of(steps: int, stride: int, seed: int) -> Bundle:
    rng = np.random.default_rng(seed)
    factor, begin = rng.uniform(0.99, 1.01), rng.uniform(1, 2)
    return growing(steps, (stride, 1), factor=float(factor), begin=float(begin))
