"""Execution: steps, runs and their commitments (docs/protocol.md, sections 3 and 5).

lease        who owns the memory of a state
values       arrays that are hashed at most once; the state between steps
backends     what computes nodes: its mode, its device, its machine
plan         operators ready to call, and the last use of each value
interpreter  one step, node by node; the hooks for metrics and for cheating
fast         the executor of honest runs: compiled steps, committed ones by the interpreter
hooks        metrics, and the tensors of single nodes
run          intervals, snapshots, claims
"""

from .backends import Backend, Operators, machine_for
from .fast import FastExecutor
from .hooks import Capture, Chain, Metrics, NodeValues
from .interpreter import Executor, Interpreter, NodeHook, Site, StepTrace
from .plan import StepPlan
from .run import Prepared, Run, RunClaim, checkpoint_steps, executor_for
from .values import State, Value, initial_root

__all__ = [
    "Backend",
    "Capture",
    "Chain",
    "Executor",
    "FastExecutor",
    "Interpreter",
    "Metrics",
    "NodeHook",
    "NodeValues",
    "Operators",
    "Prepared",
    "Run",
    "RunClaim",
    "Site",
    "State",
    "StepPlan",
    "StepTrace",
    "Value",
    "checkpoint_steps",
    "executor_for",
    "initial_root",
    "machine_for",
]
