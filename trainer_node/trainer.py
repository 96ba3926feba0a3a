"""The trainer daemon: takes slots, trains, claims, and defends what it claims."""

from __future__ import annotations

import repops
import structlog

from referee_py.execute import Claim

from .chain import Job, JobPhase
from .config import Settings
from .decide import Do, trainer_acts
from .faults import Fault
from .party import Party, crew
from .service import Node, Service, open_node
from .workshop import Workshop

_log = structlog.get_logger(__name__)


def run(settings: Settings, fault: Fault = Fault.NONE, fault_step: int = 1) -> None:
    """Run until told to stop. ``fault`` makes it cheat, for demonstrations."""
    repops.set_num_threads(settings.worker_threads)
    with open_node(settings, "trainer") as node, crew(node, fault, fault_step) as workshop:
        Service(node, trainer(node, workshop, silent=fault is Fault.WITHHOLD).tick).run()


def trainer(node: Node, workshop: Workshop, *, silent: bool = False) -> Party:
    """The trainer's part in every job of the deployment."""
    me = node.address
    assert me is not None

    def decide(job: Job) -> tuple[list[Do], Claim | None]:
        if job.referee.lower() != node.client.deployment.referee.lower():
            # SAFETY: the client names the referee; we stake only under the one whose code we have checked.
            return [], None
        joined = job.trainer(me) is not None
        willing = job.phase is JobPhase.TRAINING and not joined and workshop.prepare(job)
        own = workshop.train(job) if joined else None
        return trainer_acts(job, me, own, willing=willing), own

    return Party(node, workshop, decide, silent=silent)
