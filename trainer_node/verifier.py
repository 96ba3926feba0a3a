"""The verifier service: executes ONE disputed operator and signs what is right (docs/protocol.md, section 7)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import repops
import structlog

from referee_py.adjudication import adjudicate
from referee_py.attestation import Verdict, sign
from referee_py.commit import Record, Tag
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.game.state import MatchState, Phase
from referee_py.program import Program
from referee_py.rounding.mode import is_rounded
from referee_py.rounding.step_log import NodeLog

from .acts import act
from .artifacts import Kind, Name
from .chain import Call, Job, MatchInfo, Snapshot
from .config import Settings
from .docket import Docket, Rounds
from .logbook import step_limit
from .package import MAX_HEADER_BYTES, check_leaves, check_operator, load_program
from .service import Node, Service, open_node

PATIENCE_S = 5.0
"""How long a round waits for a judgement; what takes longer is asked for again in the next one."""
LANES = 8
"""Judgements at the same time, so that a server that stalls holds up its own match only."""

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
        self._rounds = Rounds(Docket(node.database), node.problems)
        self._lanes = ThreadPoolExecutor(LANES, thread_name_prefix="verdict")
        self._judging: dict[int, Future[Record]] = {}
        self._refused: set[int] = set()

    def tick(self) -> None:
        """Look once, sign what is due, and draw what was earned."""
        snapshot = self._node.client.snapshot()
        self._node.metrics.block.set(snapshot.block.number)
        self._rounds.go(snapshot, lambda job: self._attend(snapshot, job))
        transactions = self._node.transactions
        if transactions is not None and snapshot.credit(transactions.address):
            act(transactions, Call.of(self._node.client.contracts.jobs, "withdraw"))

    def _attend(self, snapshot: Snapshot, job: Job) -> bool:
        """Sign what is due in a job. Whether it has matches that may need us."""
        # SAFETY: only our referee's matches are what they say; another one may name any match, or none at all.
        ours = job.referee.lower() == self._node.client.deployment.referee.lower()
        if not ours or not job.open_matches or not self._named(job):
            return False
        for match_id in job.match_ids():
            match = snapshot.match(job, match_id)
            if self._due(match, snapshot.now):
                self._attest(snapshot, job, match)
            else:
                self._judging.pop(match_id, None)
        return True

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
        record = self._judgement(snapshot, job, match)
        if record is None:
            return
        transactions, client = self._node.transactions, self._node.client
        assert transactions is not None
        verdict = Verdict(match.id, match.state.end, match.state.index, record.hash())
        signature = sign(
            verdict, client.deployment.chain_id, client.deployment.referee, bytes(transactions.account.key)
        )
        _log.info("verdict.signed", match=match.id, record=record.hash().hex())
        act(transactions, Call.of(client.contracts.referee, "attest", match.id, record.hash(), signature))

    def _judgement(self, snapshot: Snapshot, job: Job, match: MatchInfo) -> Record | None:
        """The right record, if it is found in time; None if it is not, or not to be had."""
        patience = 0.0
        if match.id not in self._judging:
            patience = PATIENCE_S
            self._judging[match.id] = self._lanes.submit(self._judge, snapshot, job, match)
        try:
            return self._judging[match.id].result(timeout=patience)
        except TimeoutError:
            _log.info("verdict.pending", match=match.id)
            return None
        except Unavailable as error:
            _log.warning("verdict.unavailable", match=match.id, reason=str(error))
        except (InvalidInput, HashMismatch) as error:
            _log.error("verdict.refused", match=match.id, reason=str(error))
            self._refused.add(match.id)
        except Exception:
            del self._judging[match.id]
            raise
        del self._judging[match.id]
        return None

    def _judge(self, snapshot: Snapshot, job: Job, match: MatchInfo) -> Record:
        """The right record of the disputed node, from inputs that either side serves."""
        fetcher, memory = self._node.fetcher, self._node.settings.limits.memory_bytes
        uris = servers(job, match)
        program = load_program(fetcher, job.program, job.program_file, uris)
        structure = program.nodes[match.state.index]
        limit = check_operator(program, job.program, match.state.index, memory) + MAX_HEADER_BYTES
        records = snapshot.history(match.id).log.records
        record = next((records[node] for node in match.state.node if node in records), None)
        if record is None:
            raise Unavailable(f"the records of match {match.id} are not in its events yet")
        fetcher.fetch_all([Name(Kind.TENSOR, tensor) for tensor in record.inputs], uris, max_bytes=limit)
        inputs = [fetcher.store.get_tensor(tensor) for tensor in record.inputs]
        log = self._log(job, program, match.state, uris)
        return adjudicate(structure, record, inputs, self._backend, job.program.mode, log)

    def _log(self, job: Job, program: Program, state: MatchState, uris: list[str]) -> NodeLog | None:
        """What the job's rounding logs commit to for the disputed node; None if that is nothing.

        NOTE: it is taken from what the trainer has revealed and not from the records: both may be wrong about it.
        """
        terms, fetcher = job.program, self._node.fetcher
        if not is_rounded(terms.mode):
            return None
        check_leaves(terms)
        roots = fetcher.tree(Tag.LOG_RUN_TREE, job.logs, terms.steps, uris).leaves
        limit = step_limit(program, self._node.settings.limits.memory_bytes)
        step = fetcher.log(roots[state.end - 1], terms.node_count, uris, max_bytes=limit)
        return step.nodes.get(state.index)


def servers(job: Job, match: MatchInfo) -> list[str]:
    """Who may have what a match is about: the client and both spokesmen before all others, who may be many."""
    groups = [job.uris(group) for group in job.pair(match.id) or ()]
    first = [uris[0] for uris in groups if uris]
    return list(dict.fromkeys([job.uri, *first, *(uri for uris in groups for uri in uris)]))
