"""The verifier service: executes ONE disputed operator and signs what is right (docs/protocol.md, section 7)."""

from __future__ import annotations

import repops
import structlog

from referee_py.adjudication import adjudicate
from referee_py.attestation import Verdict, sign
from referee_py.commit import Record
from referee_py.errors import AssayError, HashMismatch, InvalidInput, Unavailable
from referee_py.game.state import Phase
from referee_py.program import Program

from .artifacts import Kind, Name
from .chain import Call, Job, MatchInfo, Snapshot
from .config import Settings
from .errors import Reverted
from .package import load_program
from .service import Node, Service, open_node

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run until told to stop."""
    repops.set_num_threads(settings.worker_threads)
    with open_node(settings, "verifier") as node:
        Service(node, Verifier(node).tick).run()


class Verifier:
    """Attests in every match that calls for a verdict and names this verifier.

    NOTE: it never guesses. Without the inputs that the records name it signs nothing, and looks again.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._backend = repops.backend("cpu")
        self._programs: dict[bytes, Program] = {}
        self._refused: set[int] = set()

    def tick(self) -> None:
        """Look once and sign what is due."""
        snapshot = self._node.client.snapshot()
        for job_id in range(1, snapshot.job_count() + 1):
            job = snapshot.job(job_id)
            if not job.open_matches or not self._named(job):
                continue
            for match_id in job.match_ids():
                match = snapshot.match(job, match_id)
                if self._due(match, snapshot.now):
                    self._attest(snapshot, job, match)

    def _named(self, job: Job) -> bool:
        return self._me in {verifier.lower() for verifier in job.verifiers}

    @property
    def _me(self) -> str:
        assert self._node.address is not None
        return self._node.address.lower()

    def _due(self, match: MatchInfo, now: int) -> bool:
        voted = self._me in {voter.lower() for voter, _ in match.state.votes}
        return (
            match.state.phase is Phase.VERDICT
            and now < match.deadline
            and not voted
            and match.id not in self._refused
        )

    def _attest(self, snapshot: Snapshot, job: Job, match: MatchInfo) -> None:
        try:
            record = self._judge(snapshot, job, match)
        except Unavailable as error:
            _log.warning("verdict.unavailable", match=match.id, reason=str(error))
            return
        except (InvalidInput, HashMismatch) as error:
            _log.error("verdict.refused", match=match.id, reason=str(error))
            self._refused.add(match.id)
            return
        transactions, client = self._node.transactions, self._node.client
        assert transactions is not None
        verdict = Verdict(match.id, match.state.end, match.state.index, record.hash())
        signature = sign(
            verdict, client.deployment.chain_id, client.deployment.referee, bytes(transactions.account.key)
        )
        _log.info("verdict.signed", match=match.id, record=record.hash().hex())
        try:
            transactions.send(Call.of(client.contracts.referee, "attest", match.id, record.hash(), signature))
        except Reverted as error:
            _log.info("verdict.not_needed", match=match.id, reason=str(error))
        except AssayError as error:
            _log.warning("verdict.failed", match=match.id, reason=str(error))

    def _judge(self, snapshot: Snapshot, job: Job, match: MatchInfo) -> Record:
        """The right record of the disputed node, from inputs that either side serves."""
        fetcher = self._node.fetcher
        pair = job.pair(match.id)
        uris = [job.uri, *(uri for group in pair or () for uri in job.uris(group))]
        if job.program_file not in self._programs:
            self._programs[job.program_file] = load_program(fetcher, job.program, job.program_file, uris)
        structure = self._programs[job.program_file].nodes[match.state.index]
        records = snapshot.history(match.id).log.records
        record = next((records[node] for node in match.state.node if node in records), None)
        if record is None:
            raise Unavailable(f"the records of match {match.id} are not in its events yet")
        fetcher.fetch_all([Name(Kind.TENSOR, tensor) for tensor in record.inputs], uris)
        inputs = [fetcher.store.get_tensor(tensor) for tensor in record.inputs]
        return adjudicate(structure, record, inputs, self._backend)
