"""The runs of a job by their names, and what can be said of them: claims, refutations, and commitments to both."""

from __future__ import annotations

from functools import cache

from referee_py.commit import Tag, Tree, fold_path
from referee_py.execute import RunClaim
from referee_py.jobs import commitment
from tests.model.jobs import Claim
from trainer_node.run.refutation import Refuted

CHAIN, JOBS = 31337, "0x" + "1" * 40
JOB = 1
INTERVALS = 3
SALT = NO_LOGS = bytes(32)

RIGHT, WRONG = "r", ("w", "v")
LIES = {"w": 1, "v": 2}
"""By wrong run: its first wrong checkpoint, from 0. Those after it follow from it."""


def who(number: int) -> str:
    return "0x" + number.to_bytes(20, "big").hex()


HONEST = who(1 << 32)


@cache
def run_tree(name: str) -> Tree:
    """Return the tree of a run."""
    first = LIES.get(name, INTERVALS)
    return Tree(
        Tag.RUN_TREE, [f"{'r' if k < first else name}{k}".encode().rjust(32) for k in range(INTERVALS)]
    )


@cache
def claim(name: str) -> Claim:
    """Return the claim of a run, with the proof of its last checkpoint."""
    tree = run_tree(name)
    return Claim(tree.root, tree.leaves[-1], tuple(tree.path(INTERVALS - 1)))


@cache
def result(name: str) -> RunClaim:
    """Return a run as the daemons hold it."""
    shown = claim(name)
    return RunClaim(shown.root, shown.last, shown.last_path)


@cache
def found(name: str) -> Refuted:
    """Return what a sampler holds that has drawn the wrong interval of a run."""
    return _refuted(name, LIES[name], run_tree(RIGHT).leaves[LIES[name]])


@cache
def other(name: str) -> Refuted:
    """Return another statement about a run: of another interval, and of a checkpoint that nobody has."""
    return _refuted(name, 0 if LIES.get(name) else 1, b"made up".rjust(32))


def _refuted(name: str, index: int, computed: bytes) -> Refuted:
    tree = run_tree(name)
    path = tuple(tree.path(index))
    root = fold_path(Tag.RUN_TREE, computed, index, path)
    last = computed if index == INTERVALS - 1 else tree.leaves[-1]
    return Refuted(
        root,
        last,
        (),
        NO_LOGS,
        against=tree.root,
        index=index,
        claimed=tree.leaves[index],
        computed=computed,
        siblings=path,
    )


ROOTS = {name: run_tree(name).root for name in (RIGHT, *WRONG)}
NAMES = {root: name for name, root in ROOTS.items()}


def hashed(owner: str, name: str) -> bytes:
    """Return an account's commitment to the claim of a run."""
    shown = claim(name)
    return commitment(CHAIN, JOBS, JOB, owner, shown.root, shown.last, NO_LOGS, SALT)


def hashed_refutation(owner: str, told: Refuted) -> bytes:
    """Return an account's commitment to a refutation."""
    return commitment(CHAIN, JOBS, JOB, owner, told.root, told.computed, told.against, SALT)


@cache
def hashed_of(of: RunClaim) -> bytes:
    """Return the honest party's commitment to a claim or a refutation."""
    return hashed_refutation(HONEST, of) if isinstance(of, Refuted) else hashed(HONEST, NAMES[of.root])
