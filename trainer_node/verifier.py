"""The verifier daemon: executes ONE disputed operator, signs the right record, stands by it (docs/adjudication.md)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import repops
import structlog

from referee_py.adjudication import execute_again
from referee_py.attestation import Verdict, sign
from referee_py.commit import NO_LOG, Record, Tag, tensor_hash
from referee_py.commit.tensor import canonical
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.panel.state import Attest, HearingPhase, Submission
from referee_py.program import Program
from referee_py.program.mode import is_rounded
from referee_py.rounding.step_log import NodeLog
from referee_py.trial.solver import Operator

from .artifacts import Kind, Name
from .chain import Call, HearingInfo, JobView, Snapshot
from .chain.codec.hearing import hearing_call
from .config import Settings
from .cost_estimate import MARGIN
from .decide import too_long, too_short, too_uncertain
from .devices import backend_of
from .due import Due
from .errors import DiskFailed
from .hearing_player import HearingPlayer
from .log_sources import step_limit
from .loop import Loop, Role, Turn, raising
from .min_stake import TRIAL_MOVES
from .opponent import Opponents
from .package import MAX_HEADER_BYTES, check_leaves, check_operator, load_program
from .service import Daemon, Service, open_daemon
from .trial_cost import TrialCost, cost_of

PATIENCE_S = 5.0
"""Seconds that a round waits for a new judgement; the next round asks again for one that takes longer."""
LANES = 8
"""Number of judgements at the same time, so that a stalling server holds up only its own match."""

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run until told to stop."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "verifier") as node:
        Service(node, Loop(node, Verifier(node)).tick).run()


@dataclass(frozen=True)
class Judgement:
    """A verifier's result: the record that it signs, and the tensors with which it defends that in a trial."""

    record: Record
    operator: Operator
    trial: TrialCost


class Verifier(Role):
    """Attests in every hearing that names this verifier, and stands by its verdict if that is overruled.

    NOTE: it never guesses. Without the inputs that the records name, it signs nothing and tries again.
    """

    def __init__(self, node: Daemon) -> None:
        self._node = node
        self._lanes = ThreadPoolExecutor(LANES, thread_name_prefix="verdict")
        self._judging: dict[int, tuple[int, Future[Judgement]]] = {}
        """By hearing: its job and its judgement."""
        self._refused: set[int] = set()
        self._over: set[int] = set()
        assert node.transactions is not None
        self._key, self._me = bytes(node.transactions.account.key), node.transactions.address
        opponents = Opponents.of(node.store, node.stop)
        self._hearing_player = HearingPlayer(node.client.contracts, self._me, opponents, node.stop)

    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether a job has hearings that may need us, and a turn for each."""
        if not job.phase.ended:
            self._over.discard(job.id)  # a reorganisation has brought it back
        # SAFETY: only our own referee's matches can be trusted; another referee may report any match, or none.
        ours = job.referee.lower() == self._node.client.deployment.referee.lower()
        if not ours or len(job.groups) < 2 or self._me not in job.verifiers or job.id in self._over:
            return False, []
        found, failed = snapshot.hearings(job)
        waited = job.match_ids()
        hearings = [h for h in found if h.hidden or h.voted(self._me) or h.match_id in waited]
        needed = {hearing.id for hearing in hearings}
        if not needed and not failed:
            self._node.problems.forget_job(job.id)
        turns = [Turn(f"hearing of match {n:#x}", raising(error)) for n, error in failed.items()]
        if not failed:
            self._hearing_player.forget(job.id, but=needed)
            for number in [n for n, (of, _) in self._judging.items() if of == job.id and n not in needed]:
                del self._judging[number]
        if job.phase.ended and not hearings and not failed:
            self._over.add(job.id)
        turns += [
            Turn(f"hearing of match {hearing.match_id:#x}", partial(self._due, snapshot, job, hearing))
            for hearing in hearings
        ]
        return bool(hearings or failed or job.open_matches), turns

    def _due(self, snapshot: Snapshot, job: JobView, hearing: HearingInfo) -> list[Due]:
        """Return our vote, if that is due; otherwise what keeps the hearing going and defends our bond."""
        if hearing.state.phase is HearingPhase.VOTING and snapshot.now < hearing.state.until:
            if not hearing.voted(self._me) and hearing.id not in self._refused:
                return self._vote(job, hearing)
            return []
        if hearing.state.phase not in (HearingPhase.DEFENCE, HearingPhase.STAND):
            self._judging.pop(hearing.id, None)  # the tensors may be large, and are rarely needed again
        return self._hearing_player.due(snapshot, hearing, _OperatorSource(self, job, hearing))

    def _vote(self, job: JobView, hearing: HearingInfo) -> list[Due]:
        settings = self._node.settings
        reason = too_uncertain(job, settings.allow_probable_bounds)
        # SAFETY: a vote locks our bond for as long as the hearing lasts.
        reason = reason or too_long(job, settings.limits.max_period_s)
        if reason := reason or too_short(job, settings.latency_s):
            _log.warning("verdict.left_to_others", match=hex(hearing.match_id), reason=reason)
            self._refused.add(hearing.id)
            return []
        judgement = self.judgement(job, hearing)
        if judgement is None:
            return []
        # SAFETY: with a signature we stake our bond on playing a trial in time; after signing we defend it at any cost.
        if reason := too_costly(judgement.trial, TRIAL_MOVES * settings.latency_s, job.rules.clock):
            _log.error("verdict.refused", match=hex(hearing.match_id), reason=reason)
            self._refused.add(hearing.id)
            return []
        at, record, client = hearing.terms.submission, judgement.record.hash(), self._node.client
        verdict = Verdict(hearing.id, at.step, at.node, record)
        signature = sign(verdict, client.deployment.chain_id, client.deployment.panel, self._key)
        call = Call.batch(client.contracts.panel, hearing_call(Attest(at, record, signature), hearing.id))
        return [Due(call, "verdict.signed", {"match": hex(hearing.match_id), "record": record.hex()})]

    def judgement(self, job: JobView, hearing: HearingInfo) -> Judgement | None:
        """Return the judgement of a hearing; None if it is still pending, unavailable or refused."""
        patience, topic = 0.0, f"hearing of match {hearing.match_id:#x}"
        if hearing.id not in self._judging:
            patience = PATIENCE_S
            self._judging[hearing.id] = job.id, self._lanes.submit(self._judge, job, hearing)
        try:
            judgement = self._judging[hearing.id][1].result(timeout=patience)
            self._node.problems.job(job.id, topic, None, ours=True)
            return judgement
        except TimeoutError:
            _log.info("verdict.pending", match=hex(hearing.match_id))
            return None
        except Unavailable as error:
            _log.warning("verdict.unavailable", match=hex(hearing.match_id), reason=str(error))
            self._failed(job, hearing, "peer", error)
        except (InvalidInput, HashMismatch) as error:
            _log.error("verdict.refused", match=hex(hearing.match_id), reason=str(error))
            self._refused.add(hearing.id)
            self._failed(job, hearing, "peer", error)
        except Exception as error:
            self._failed(job, hearing, "disk" if isinstance(error, DiskFailed) else "run", error)
            del self._judging[hearing.id]
            raise
        del self._judging[hearing.id]
        return None

    def _failed(self, job: JobView, hearing: HearingInfo, of: str, error: Exception) -> None:
        """Tell /readyz and the metrics, until the verdict is there or the hearing is over."""
        self._node.metrics.add("failures", of)
        told = f"no verdict: {type(error).__name__}: {error}"
        self._node.problems.job(job.id, f"hearing of match {hearing.match_id:#x}", told, ours=True)

    def _judge(self, job: JobView, hearing: HearingInfo) -> Judgement:
        """Compute the right record of the disputed node from inputs that either side serves."""
        at = hearing.terms.submission
        fetcher, memory = self._node.fetcher, self._node.settings.limits.memory_bytes
        uris = servers(job, hearing)
        program = load_program(fetcher, job.program, job.program_file, uris)
        structure = program.nodes[at.node]
        limit = check_operator(program, job.program, at.node, memory) + MAX_HEADER_BYTES
        record = hearing.terms.dispute.records[0]
        fetcher.fetch_all([Name(Kind.TENSOR, tensor) for tensor in record.inputs], uris, max_bytes=limit)
        inputs = [fetcher.store.get_tensor(tensor) for tensor in record.inputs]
        log = self._log(job, program, at, uris)
        outputs = execute_again(
            structure, record, inputs, backend_of("cpu", job.program.mode), job.program.mode, log
        )
        hashes = tuple(tensor_hash(array) for array in outputs)
        right = Record(record.structure, record.inputs, hashes, NO_LOG if log is None else log.digest)
        trial = cost_of(at.node, structure, inputs, job.program.mode)
        entries = log.read() if log else None
        return Judgement(right, Operator(inputs, [*map(canonical, outputs)], entries), trial)

    def _log(self, job: JobView, program: Program, at: Submission, uris: list[str]) -> NodeLog | None:
        """Return the disputed node's log, to which the job's rounding logs commit; None if there is none.

        NOTE: it comes from the root that the trainer has revealed, because both records may name a wrong log.
        """
        terms, fetcher = job.program, self._node.fetcher
        if not is_rounded(terms.mode):
            return None
        check_leaves(terms)
        roots = fetcher.tree(Tag.LOG_RUN_TREE, job.logs, terms.steps, uris).leaves
        limit = step_limit(program, self._node.settings.limits.memory_bytes)
        step = fetcher.log(roots[at.step - 1], terms.node_count, uris, max_bytes=limit)
        return step.nodes.get(at.node)


def too_costly(trial: TrialCost, moves_s: float, clock: int) -> str | None:
    """Return why not to sign a verdict, or None: this machine could not play its trial within the clock."""
    if MARGIN * (trial.seconds + moves_s) <= clock:
        return None
    return (
        f"a trial may take us {MARGIN * trial.seconds:.0f} s to compute ({trial}), and {MARGIN * moves_s:.0f} s "
        f"for its moves; the clock has {clock} s"
    )


@dataclass(frozen=True)
class _OperatorSource:
    """A signer's knowledge of a disputed operator: its own judgement."""

    verifier: Verifier
    job: JobView
    hearing: HearingInfo

    def right(self) -> Record | None:
        judgement = self.verifier.judgement(self.job, self.hearing)
        return judgement.record if judgement else None

    def operator(self) -> Operator | None:
        judgement = self.verifier.judgement(self.job, self.hearing)
        return judgement.operator if judgement else None

    def servers(self) -> list[str]:
        accuser = self.hearing.terms.submission.players[self.hearing.state.side]
        return [claim.uri for claim in self.job.claims if claim.owner == accuser and claim.uri]


def servers(job: JobView, hearing: HearingInfo) -> list[str]:
    """Return the servers that may have the data of a hearing: the client's, both spokesmen's, then all others'."""
    spokesmen = hearing.terms.submission.players
    claims = sorted(job.claims, key=lambda claim: claim.owner not in spokesmen)
    return list(dict.fromkeys([job.uri, *(claim.uri for claim in claims if claim.uri)]))
