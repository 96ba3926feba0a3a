"""One scenario from start to end."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from referee_py.errors import AssayError
from referee_py.execute import Run
from referee_py.panel.state import HearingPhase
from referee_py.program.terms import Terms
from trainer_node.chain import ChainClient, JobPhase
from trainer_node.chain.fees import ETHER
from trainer_node.client.posting import Offer, post_job
from trainer_node.ids import short
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.logs import configure_logging
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.storage.store import Store

from ..faults import Lie
from ..names import NETWORK, LocalChain, Scenario
from ..processes import heed, output_of, until_interrupted
from .checks import Dispute, check_outcome, disputes, table, verdicts, wealth
from .declined import TooFew, declined, needed
from .narrator import Narrator, samples, unfinished
from .network import Network
from .operator import explainer
from .roles import Role, roles
from .truth import Truth

RECIPES = {False: "digits-mlp", True: "digits-mlp-bf16"}
"""The recipe of the demonstration; True: of one in a mode for bf16."""
STRIDES = (100, 10, 1)
MANY = (10, 1)
"""Strides of the scenario about samples, which needs many intervals to draw from."""
VERIFIERS = ("verifier 1", "verifier 2")
STAKE, REWARD = ETHER, 2 * ETHER
EVALUATORS = {"trainer": "torch", "challenger": "halves"}
"""Simulated hardware of each role in rounded-f64: they differ."""
SHARED = 6
"""Factor by which a run may slow down while all parties compute at once."""
FEW = 4
"""Number of parties for which `SHARED` holds; with more, times grow in proportion."""
MOST_BUSY = 12.0
"""Factor at most by which the periods grow on a machine that is busy already."""
POLL_S = 0.5
SILENT_S = 30.0
"""Seconds between two lines about the block and the phase where no terminal shows them all the time."""

out = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Result:
    """Outcome of a scenario: whether everything is as it must be, and its disputes."""

    just: bool
    disputes: list[Dispute]
    seconds: float
    fetched: dict[str, int]
    """Bytes of artifacts that each party fetched from others."""


def play(
    scenario: Scenario,
    lie: Lie,
    bundle: Bundle,
    folder: Path,
    *,
    court_only: bool = False,
    explorer: Path | None = None,
    chain: LocalChain = LocalChain.ANVIL,
) -> Result:
    """Play the scenario in ``folder``, on a local ``chain``, and report what happens.

    ``court_only``: without verifiers. ``explorer``: the bundle's folder, if web pages are to show it all until the user
    stops.
    """
    configure_logging(level="warning")
    parts = roles(scenario, lie, bundle.terms.steps)
    verifiers = () if court_only else VERIFIERS
    lying = verifiers if scenario is Scenario.LYING_VERIFIERS else ()
    names = [*(part.name for part in parts), *verifiers]
    began = time.monotonic()

    def say(line: str) -> None:
        out.print(f"[dim]{time.monotonic() - began:5.1f} s[/dim]  {line}")

    terms, truth = bundle.terms, Truth(bundle, Store(folder / "truth"))
    periods = Periods.of(_estimate(truth.trial()), terms, parts, busy())
    if busy() >= 2:
        say(
            f"this machine is busy ({busy():.0f} processes want each processor), so every period is as much longer"
        )
    program = f"{len(bundle.program.nodes)} operators a step, {terms.steps} steps"
    if truth.follows_logs:
        say(
            f"the program: {bundle.name}, {program}; what is right depends on the trainer's rounding logs, too"
        )
    else:
        honest_root = truth.root()
        say(f"the program: {bundle.name}, {program}; honest training gives {short(honest_root)}")
    if lie.node is not None:
        node = (
            f"{bundle.program.nodes[lie.node].name} (operator {lie.node}: {bundle.labels['nodes'][lie.node]})"
        )
        say(f"one element of {node} will be wrong in step {lie.step}")

    with (
        Network(folder / NETWORK, names, chain) as network,
        ArtifactServer(Store(network.folder / "client")) as server,
    ):
        client = network.deploy()
        for name in verifiers:
            network.register_verifier(client, name)
        judges = "two verifiers are bonded" if verifiers else "the court judges operators"
        say(f"{chain} runs at {network.rpc_url}; contracts are deployed, {judges}")
        first = client.block().number + 1
        before = wealth(client, network.accounts)
        job_id = _post(network, client, bundle, parts, server, periods, len(lying) or 1)
        pages = None if explorer is None else network.start_explorer(explorer)
        say(f"the client offers {REWARD / ETHER:g} ether; a claim takes a stake of {STAKE / ETHER:g} ether")
        for part in parts:
            network.start_part(part, evaluator=EVALUATORS[part.role], check=part.check)
        for name in verifiers:
            network.start_verifier(name, lies=name in lying)
        liar = next((part for part in parts if not part.honest), None)
        by_address: dict[str, str] = {address: name for name, address in network.accounts.items()}
        explain = explainer(bundle, liar, lambda: truth.backend(client, job_id))
        narrator = Narrator(client, job_id, by_address, say, explain)
        with _told(network, pages, say) as look:
            _watch(network, client, job_id, narrator, parts, names, periods.limit, look)
        if truth.follows_logs:
            honest_root = truth.root(truth.backend(client, job_id))
            say(f"given the trainer's logs, honest training gives {short(honest_root)}")
        for part in parts:
            for line in samples(part, network.events(part.name)):
                say(line)
        late = [part.name for part in parts if part.check != "all" and unfinished(network.events(part.name))]
        accounts = check_outcome(client, network.accounts, before, first)
        out.print(table(accounts))
        checks = verdicts(client, job_id, parts, network.accounts, honest_root, accounts, lying, late)
        matches = disputes(client, job_id)
        fetched = {name: _fetched(network, name) for name in names}
        for what, holds in checks:
            out.print(f"{'[green]✓[/green]' if holds else '[red]✗[/red]'} {what}")
        if explorer is not None:
            _linger(network)
    moved = "; ".join(f"{name} {amount / 1e6:.1f} MB" for name, amount in fetched.items())
    out.print(f"[dim]fetched from others: {moved}[/dim]")
    return Result(all(holds for _, holds in checks), matches, time.monotonic() - began, fetched)


def _estimate(run: Run) -> CostEstimate:
    """Time a step here, plain and committed. NOTE: the chains of a trial in the demonstration take no time."""
    state = run.advance(run.initial(), 1)

    def seconds(step: Callable[[], object]) -> float:
        began = time.monotonic()
        step()
        return time.monotonic() - began

    plain = seconds(lambda: run.advance(state, 2))
    return CostEstimate(plain, seconds(lambda: run.commit_step(state)), NO_TRIAL)


def _fetched(network: Network, name: str) -> int:
    """Return the bytes of artifacts that a party has fetched."""
    return sum(event["bytes"] for event in network.events(name) if event.get("event") == "artifacts.fetched")


def digits(parent: Path, steps: int, strides: tuple[int, ...] = STRIDES, *, bf16: bool = False) -> Path:
    """Return the folder, in ``parent``, of the program of the demonstration, with those strides that are shorter than
    the run. It is captured once, in a separate process; with ``bf16``, as inside autocast."""
    recipe = RECIPES[bf16]
    folder = parent / f"{recipe}-{steps}-{strides[0]}"
    if not (folder / "job.json").exists():
        with out.status("capturing the training step from PyTorch"):
            command = [sys.executable, "-m", "trainer_node.cli", "program", "build", recipe, str(folder)]
            command += ["--steps", str(steps)]
            command += ["--strides", ",".join(str(stride) for stride in strides if stride < steps)]
            status, told = output_of(command)
        if status:
            raise AssayError(f"`assay program build` has failed: {told.strip()[-2000:]}")
    return folder


@dataclass(frozen=True)
class Periods:
    """Seconds that a job gives its parties, who share this machine; `limit` bounds the whole job."""

    train: int
    reveal: int
    challenge: int
    clock: int
    verdict: int
    limit: float

    @classmethod
    def of(cls, estimate: CostEstimate, terms: Terms, parts: Sequence[Role], load: float = 1.0) -> Periods:
        """Derive the periods from step times here, with the margin that trainers want. ``load``: how many others want
        each processor (`busy`), which makes the start of a party and its messages as much longer.

        A challenger that follows rounding logs, or checks a part, can begin only when the claims are revealed.
        """
        shared = max(1.0, len(parts) / FEW)
        margin = SHARED * shared * MARGIN
        flood = estimate.answer_s(terms) + estimate.waits_s(terms)
        train, dispute = margin * estimate.train_s(terms), margin * (estimate.dispute_s(terms) + flood)
        later = terms.arithmetic.follows_logs or any(part.check != "all" for part in parts)
        least = shared * load
        challenge = 30 * load + train if later else 15 * least
        limit = 300 * shared * least + 2 * train + 6 * dispute + challenge
        return cls(
            math.ceil(60 * least + train),
            math.ceil(30 * load),
            math.ceil(challenge),
            math.ceil(20 * least + dispute),
            math.ceil(60 * least + dispute),
            limit,
        )


def busy() -> float:
    """Return how many processes have wanted each processor in the last minute: 1 at least, `MOST_BUSY` at most."""
    return min(MOST_BUSY, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def _post(
    network: Network,
    client: ChainClient,
    bundle: Bundle,
    parts: list[Role],
    server: ArtifactServer,
    periods: Periods,
    threshold: int,
) -> int:
    offer = Offer(
        reward=REWARD,
        stake=STAKE,
        slots=sum(part.role == "trainer" for part in parts),
        train_period=periods.train,
        reveal_period=periods.reveal,
        challenge_period=periods.challenge,
        clock=periods.clock,
        verdict_period=periods.verdict,
        appeal_period=periods.clock,
        verifiers=tuple(network.accounts[name] for name in VERIFIERS if name in network.accounts),
        threshold=threshold,
    )
    with network.transactions("client") as transactions:
        job_id, _ = post_job(
            client, transactions, Store(network.folder / "client"), bundle, offer, server.uri
        )
    return job_id


def _watch(
    network: Network,
    client: ChainClient,
    job_id: int,
    narrator: Narrator,
    parts: list[Role],
    names: list[str],
    limit: float,
    look: Callable[[], None],
) -> None:
    """Run the narrator, and ``look``, until job and hearings are over and all are paid. Raises AssayError at the limit,
    and as soon as a party that is needed has left the job to others."""
    began = said = time.monotonic()
    deadline = began + limit
    with out.status("waiting for the first block") as status:
        while True:
            narrator.tell()
            look()
            _check_parts(network, parts)
            snapshot = client.snapshot()
            job = snapshot.job(job_id)
            if job.phase is not JobPhase.TRAINING and len(job.trainers) < job.slots:
                raise TooFew(len(job.trainers), job.slots)
            owed = any(snapshot.credits(network.accounts[name]) for name in names)
            owed |= any(not claim.lost and not claim.collected for claim in job.claims)
            hearings = snapshot.hearings(job)[0]
            if job.phase.ended and not owed and not hearings:
                narrator.tell()
                return
            left = {
                "TRAINING": job.commit_end,
                "REVEAL": job.reveal_end,
                "CHALLENGE": job.challenge_end,
                "CLOSING": job.reclaim_end,
            }
            phase, ends = job.phase.name.lower(), left.get(job.phase.name, 0)
            if hearings and hearings[0].state.phase is HearingPhase.RULED:
                phase, ends = "the verdict stands unless somebody appeals", hearings[0].state.until
            if ends:
                phase += f", {max(0, ends - snapshot.now)} s left"
            now = f"block {snapshot.block.number}: {phase}{_progress(network, parts)}"
            status.update(now)
            if not out.is_terminal and time.monotonic() > said + SILENT_S:
                said = time.monotonic()
                out.print(f"         {now}")
            heed()
            if network.dead():
                raise AssayError(f"{', '.join(network.dead())} ended; see {network.log(network.dead()[0])}")
            if time.monotonic() > deadline:
                raise AssayError(f"job {job_id} did not end within {limit:.0f} s; see {network.folder}")
            time.sleep(POLL_S)


def _check_parts(network: Network, parts: list[Role]) -> None:
    """Raise Declined if a party that is needed has left the job to others."""
    for part in parts:
        if needed(part, parts) and (
            why := declined(part, network.events(part.name), str(network.log(part.name)))
        ):
            raise why


@contextlib.contextmanager
def _told(network: Network, pages: str | None, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Give a function that says the address of the pages, once, as soon as they answer. The block waits for that."""
    left = [] if pages is None else [pages]

    def look() -> None:
        if left and network.answers(left[0]):
            say(f"[bold]look at it: {left.pop()}[/bold]")

    yield look
    while left:
        look()
        heed()
        if network.dead():
            raise AssayError(f"{', '.join(network.dead())} ended; see {network.log(network.dead()[0])}")
        time.sleep(POLL_S)


def _linger(network: Network) -> None:
    """Keep the network up for those who look at it, until Ctrl-C or the end of the explorer."""
    out.print("[bold]the pages stay until Ctrl-C[/bold]")
    with until_interrupted():
        while not network.dead():
            heed()
            time.sleep(POLL_S)


def _progress(network: Network, parts: list[Role]) -> str:
    """Return the progress of the parties that are training."""
    found = []
    for part in parts:
        steps = [event for event in network.events(part.name) if event.get("event") == "train.progress"]
        if steps and steps[-1]["step"] < steps[-1]["of"]:
            found.append(f"; {part.name}: step {steps[-1]['step']} of {steps[-1]['of']}")
    return "".join(found)
