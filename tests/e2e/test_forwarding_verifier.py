"""Attack: a verifier signs because the gas of its trial is in the account, and sends that gas to its withdrawal address
in the same round. Once its verdict is overruled (the right side gives the trial away) it cannot pay to stand by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.roles.verifier import Verifier

from ..trainer_node.desk import until
from .arena import Arena

COLD = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
KEEP = 0.05


class Forwarding(Arena):
    """The verifier keeps little; its operator sends it what it asks for."""

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        forwards = {"withdrawal_address": COLD, "keep_eth": KEEP} if role == "verifier" else {}
        return super()._node(name, role, **forwards, **settings)


def test_the_gas_of_trials_that_are_signed_for_is_not_sent_on(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    trainers = [Fault.NONE, Fault.WRONG_OP_OUTPUT]
    with Forwarding(anvil, tmp_path, bundle, trainers=trainers, challenger=None, verifiers=1) as arena:
        verifier = next(member for member in arena.members if isinstance(member.part, Verifier))
        part: Any = verifier.part
        transactions: Any = verifier.node.transactions
        others = [member for member in arena.members if member is not verifier]
        for _ in range(3):
            verifier.loop.tick()
        assert transactions.balance() < 0.06e18, "all above the floor has gone"

        def heard() -> bool:
            for member in others:
                member.loop.tick()
            if not any(member.busy for member in others):
                snapshot = arena.client.snapshot()
                job = snapshot.job(arena.job_id)
                if job.groups and snapshot.hearings(job)[0]:
                    return True
                arena.skip(5)
            return False

        until(heard)

        def signed() -> bool:
            # Its operator sends it ether, with which it signs.
            for member in others:
                member.loop.tick()  # they offer the operator's tensors
            given: Any = [transactions.address, hex(5 * 10**18)]
            arena.web3.provider.make_request("anvil_setBalance", given)  # type: ignore[arg-type]
            verifier.loop.tick()
            return bool(part._bonds.held(but=0))

        until(signed)
        for _ in range(3):
            verifier.loop.tick()
        needs = sum(bond.wei for bond in part._bonds.held(but=0))
        assert needs > 0
        has = transactions.balance()
        assert has >= needs, f"its trials may take {needs / 1e18} ether, and {has / 1e18} are left"
