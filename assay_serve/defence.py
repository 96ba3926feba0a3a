"""The node of a server with a pledge: it plays the jobs of challenges of its receipts, and no others.

It learns of them from the chain: the event of a challenge names its job. Whoever else pledges there and challenges
himself gets nothing of us. The run comes from the receipt that the server
has kept, and the job holds it in the store; so nobody needs to serve it, and it stays until the job is over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from referee_py.errors import AssayError, InvalidInput
from trainer_node.chain import JobView
from trainer_node.daemon.service import Daemon
from trainer_node.errors import DiskFailed
from trainer_node.run.package import package_names
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import Settings
from trainer_node.storage.untrusted_file import read_plain

from .answer_run import AnswerRuns, bundle_of
from .pledges import Pledges
from .receipt import MAX_BYTES, Signed

_log = structlog.get_logger(__name__)


def settings_of(settings: Settings) -> Settings:
    """Return the settings of a node that defends receipts. SAFETY: its own pledge is at stake in each of these jobs, so
    it asks for no price, and leaves none of them for its client or program."""
    policy = settings.policy.model_copy(
        update={
            "clients": (),
            "programs": (),
            "node_price_eth": 0.0,
            "max_reserve_prizes": 0,
            "max_open_jobs": 0,
        }
    )
    return settings.model_copy(
        update={"mode": Mode.CHALLENGE, "check": "all", "max_watch_eth": 0.0, "policy": policy}
    )


class Defence:
    """The challenges of an owner's receipts. ``folder`` has the receipts, as `assay serve --keep` writes them; ``runs``
    gives those of the model with so many places."""

    def __init__(
        self, node: Daemon, pledges: Pledges, owner: str, runs: Callable[[int], AnswerRuns], folder: Path
    ) -> None:
        self._node, self._pledges, self._owner = node, pledges, owner
        self._runs, self._folder = runs, folder
        self._told = node.remembered.of_jobs(set[str])
        self._known = node.remembered.of_jobs(dict[tuple[int, bytes], bool])
        """Answers about a job, by when and with which program it was posted: a reorganisation may give its number to
        another."""

    def wants(self, job: JobView) -> bool:
        """Return whether a job is that of a challenge; if so, let it hold its run in the node's store.

        Raises RpcUnavailable, RpcCorrupt, DiskFailed; then it is asked again.
        """
        if job.client != self._pledges.address:
            return False
        known, posted = self._known[job.id], (job.posted, job.program.hash())
        if posted in known:
            return known[posted]
        found = self._pledges.challenged(job)
        if found is None:
            return False  # the endpoint is behind; it is asked again
        ours = found.owner.lower() == self._owner.lower()
        if ours:
            try:
                self._hold(job, found.answer)
            except AssayError as error:
                if isinstance(error, DiskFailed):
                    raise
                # NOTE: the chain has checked its signature, so it is ours to defend with what the challenger serves. A
                # folder may be there again later.
                self._tell(job, _log.error, "receipt.lacks", receipt=found.answer, error=str(error))
                return True
            self._tell(job, _log.info, "receipt.challenged", challenge=found.number, receipt=found.answer)
        known[posted] = ours
        return ours

    def _tell(self, job: JobView, log: Callable[..., object], event: str, **about: object) -> None:
        """Log once for each job."""
        if event not in self._told[job.id]:
            self._told[job.id].add(event)
            log(event, job=job.id, **about)

    def _hold(self, job: JobView, answer: str) -> None:
        """Put the run of a receipt into the store, as a job holds it. Raises InvalidInput if there is none here, and
        DiskFailed if that cannot be told."""
        path = self._folder / f"{answer}.json"
        try:
            signed = Signed.from_bytes(read_plain(path, MAX_BYTES))
        except FileNotFoundError as error:
            raise InvalidInput(f"{path} is not there") from error
        except OSError as error:
            raise DiskFailed(f"{path} cannot be read: {error.strerror}; see to its disk") from error
        bundle = bundle_of(self._runs(signed.receipt.places), signed)
        if bundle.terms != job.program:
            raise InvalidInput(f"{path} is about another run than the job's; is the model another?")
        store = self._node.store.held_by(job.id)
        store.hold(*package_names(bundle.program, bundle.put(store)))
