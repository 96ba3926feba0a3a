"""One of three endpoints of an honest party, the one that serves, shows one thing wrong where no hash binds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from assay_lab.faults import Fault
from referee_py.commit import tensor_hash
from referee_py.commit.structs import value_of
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase
from referee_py.panel.state import Submission
from referee_py.program.modes import MODES
from referee_py.trial import Stage
from referee_py.walk.dispute import Dispute, dispute_hash
from tests.campaigns.proxy import FaultProxy
from tests.campaigns.view_liar import ViewLiar, Words
from tests.conftest import Anvil, Assay
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle

from . import brink
from .arena import REWARD, STAKE, Arena
from .forgeries import FORGERIES
from .test_data_requests import SPARSE, WithholdingArena
from .test_disputes import honest_root

HONEST = "trainer-1"
EXACT = next(mode for mode in MODES if mode.name == "exact")
RIGHT = REWARD + STAKE // 2
"""What the honest trainer of two has earned."""


class OfThree(Arena):
    """The party ``who`` has three endpoints, of which the first serves."""

    who: ClassVar[str] = HONEST
    urls: ClassVar[list[str]] = []

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        if name == self.who:
            settings["rpc_url"] = self.urls
        return super()._node(name, role, **settings)


@contextmanager
def lying(anvil: Anvil, monkeypatch: pytest.MonkeyPatch, who: str = HONEST) -> Iterator[ViewLiar]:
    """A liar, and two sound endpoints behind it."""
    with ExitStack() as stack:
        liar = stack.enter_context(ViewLiar(anvil.url))
        sound = [stack.enter_context(FaultProxy(anvil.url, seed)).url for seed in (1, 2)]
        monkeypatch.setattr(OfThree, "who", who)
        monkeypatch.setattr(OfThree, "urls", [liar.url, *sound])
        yield liar


def product(bundle: Bundle) -> int:
    return next(number for number, node in enumerate(bundle.program.nodes) if node.name == "mm")


@contextmanager
def disputed(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, step: int, node: int | None = None, verifiers: int = 0
) -> Iterator[OfThree]:
    """A job of two trainers about an operator's output, without a challenger. Where there are verifiers, the second
    trainer lies; else the first."""
    faults = [Fault.WRONG_OP_OUTPUT, Fault.NONE]
    with OfThree(
        *(anvil, tmp_path, bundle),
        trainers=faults[::-1] if verifiers else faults,
        challenger=None,
        fault_step=step,
        fault_node=node,
        verifiers=verifiers,
        threshold=verifiers,
    ) as arena:
        yield arena


def wins(arena: Arena) -> None:
    outcome = arena.play()
    assert outcome.job.phase is JobPhase.ACCEPTED
    assert outcome.profit[HONEST] == RIGHT
    assert outcome.profit["trainer-0"] == -STAKE


def test_another_start_of_the_interval_that_is_refined(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a refinement of (21, 40] has as many leaves as one of (20, 40], and the same last one. The contract
    took it, and the right root was lost."""
    with lying(anvil, monkeypatch) as liar:
        with disputed(anvil, tmp_path, bundle, 37) as arena:

            def other_start(words: Words) -> bool:
                if (words[7], *words[1:3]) != (Phase.REFINE, 20, 40):
                    return False
                words[1] = 21
                return True

            liar.view(arena.client.contracts.referee, "getMatch", other_start)
            wins(arena)
        assert liar.lied


def test_another_element_of_a_trial(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: we posted states of another element's chain, and the right root was lost."""
    with lying(anvil, monkeypatch) as liar:
        with disputed(anvil, tmp_path, bundle, 37, product(bundle)) as arena:

            def other_element(words: Words) -> bool:
                if words[3] not in (Stage.POST, Stage.ANSWER):
                    return False
                words[12] ^= 1
                return True

            liar.view(arena.client.contracts.court, "getTrial", other_element)
            wins(arena)
        assert liar.lied


def test_a_hearing_about_other_inputs(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a signature about a false hearing was read from its simulation, and sent to the true one by whoever
    showed the false one: the verifier lost its bond."""
    node = product(bundle)
    fake = np.zeros(bundle.program.type_of(bundle.program.nodes[node].inputs[0]).shape, np.float32)
    files = set[int]()
    with lying(anvil, monkeypatch, "verifier-0") as liar:
        with disputed(anvil, tmp_path, bundle, 20, node, verifiers=1) as arena:
            panel = arena.client.contracts.panel
            evil = next(member for member in arena.members if member.name == "trainer-1")
            evil.node.store.put_tensor(fake)

            def other_inputs(values: list[Any]) -> None:
                until, submission, dispute = values
                records = tuple((r[0], (tensor_hash(fake), *r[1][1:]), *r[2:]) for r in dispute[0])
                dispute = (records, *dispute[1:])
                submission = (*submission[:-1], dispute_hash(value_of(Dispute, dispute)))
                files.add(int.from_bytes(value_of(Submission, submission).hash(), "big"))
                values[:] = until, submission, dispute

            def other_file(words: Words) -> bool:
                if words[2] != 1:
                    return False
                query = {"address": panel.address, "fromBlock": "0x0", "toBlock": "latest"}
                request = {"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [query]}
                for log in [] if files else liar._client.post(anvil.url, json=request).json()["result"]:
                    liar._log(log)
                words[7] = min(files)
                return True

            liar.event(panel, "Submitted", other_inputs)
            liar.view(panel, "getHearing", other_file)
            outcome = arena.play()
            signed = {call["record"] for call in liar.simulated(panel, "attest")}
            assert outcome.profit["trainer-0"] == RIGHT - STAKE // 10, "a tenth is the verifier's"
            assert len(signed) == 1, "the true hearing's"
            assert arena.client.snapshot().registered(arena.address("verifier-0")).bond == 10**18
        assert liar.lied


def test_another_mode_of_the_job_while_it_is_judged(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: the vote waited for a true look, and was then made from what had been judged in a false one."""
    terms, voting = bundle.terms, list[bool]()
    with lying(anvil, monkeypatch, "verifier-0") as liar:
        with disputed(anvil, tmp_path, bundle, 20, product(bundle), verifiers=1) as arena:

            def seen(words: Words) -> bool:
                voting.extend([True] * (words[2] == 1))
                return False

            def other_mode(words: Words) -> bool:
                counts = [terms.mode, terms.node_count, terms.slot_count, terms.constant_count, terms.steps]
                at = [k for k in range(len(words) - 5) if words[k : k + 5] == counts] if voting else []
                for k in at[:1]:
                    words[k] = EXACT.byte
                return bool(at)

            liar.view(arena.client.contracts.panel, "getHearing", seen)
            liar.view(arena.client.contracts.jobs, "viewOf", other_mode)
            assert arena.play().profit["trainer-0"] == RIGHT - STAKE // 10
            assert arena.client.snapshot().registered(arena.address("verifier-0")).bond == 10**18
        assert liar.lied


class Withholding(OfThree, WithholdingArena): ...


def test_other_answers_to_requests_for_logs(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a challenger followed logs that nobody has shown, claimed what came out, and lost a stake."""
    with lying(anvil, monkeypatch, "challenger") as liar:
        job, forgery = brink.bundle(SPARSE), FORGERIES["all directions in the band"]
        with Withholding(anvil, tmp_path, job, forgery, knows=True) as arena:

            def without_digests(values: list[Any]) -> None:
                at = next(k for k, value in enumerate(values) if isinstance(value, tuple) and len(value) > 2)
                values[at] = tuple(bytes(32) for _ in values[at])

            liar.event(arena.client.contracts.data_availability, "DigestsProvided", without_digests)
            outcome = arena.play()
            assert outcome.job.accepted_root == outcome.job.groups[0].root
            assert outcome.matches == []
            assert outcome.profit["challenger"] > -STAKE // 100, "fees for the logs"
        assert liar.lied


def test_another_accepted_root_is_no_result(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, assay: Assay
) -> None:
    """The attack: the client fetched a made-up result, "proven by the accepted root", and a certificate of it."""
    with lying(anvil, monkeypatch) as liar:
        faults = [Fault.NONE, Fault.WRONG_OP_OUTPUT]
        with Arena(
            *(anvil, tmp_path / "arena", bundle), trainers=faults, challenger=None, verifiers=0, threshold=0
        ) as arena:
            arena.client.deployment.save(tmp_path / "deployment.json")
            job, right = arena.play().job, honest_root(bundle)
            (wrong,) = (g.root for g in job.groups if g.root != right and g.refutes is None)
            numbers = {int.from_bytes(right, "big"): int.from_bytes(wrong, "big")}

            def other_root(words: Words) -> bool:
                at = [k for k, word in enumerate(words) if word in numbers]
                for k in at[:1]:
                    words[k] = numbers[words[k]]
                return bool(at)

            liar.view(arena.client.contracts.jobs, "viewOf", other_root)
            options = ["--rpc-url", ",".join(OfThree.urls), "--deployment", "deployment.json"]
            for command in (["result", arena.job_id], ["certificate", arena.job_id, "--out", "certificate"]):
                code, output, errors = assay("job", *command, *options)
                assert code != 0, output
                assert "endpoint" in errors
            liar.on = False
            code, output, errors = assay("job", "result", arena.job_id, *options)
            assert code == 0, errors
            assert right.hex() in output
        assert liar.lied
