"""Every page in every state, as the explorer makes it: name and HTML.

Jobs and disputes of random games (`states.py`); jobs that are played by real daemons, for the pages that need a served
program; published runs without a chain.
"""

from __future__ import annotations

import base64
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eth_account import Account

from assay_explorer.finding import SHOW
from assay_explorer.published import RunPages
from assay_explorer.unfinished import UnfinishedPages
from assay_lab.faults import Fault
from referee_py.program.modes import MODES
from tests.conftest import Anvil
from tests.e2e.arena import NOWHERE, Arena
from tests.referee_py.game.chain import ANVIL_OPTIONS
from tests.trainer_node.audit.runs import opened, publish, signed
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.certificate import Certificate
from trainer_node.cli.arithmetic import mode_words
from trainer_node.local.bundle import Bundle
from trainer_node.local.local_run import LocalRun
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.run_reports import Board, Point, RunReport
from trainer_node.storage.store import Store

from .conftest import MM, Played, play
from .states import World, explorer, generated

Pages = Iterator[tuple[str, str]]
Start = Callable[..., Anvil]


@dataclass(frozen=True)
class Case:
    """A job that daemons play: the options of its arena, and pages of it: where they are to be, and how it is named."""

    name: str
    options: dict[str, Any]


LIAR = [Fault.NONE, Fault.WRONG_OP_OUTPUT]
PLAYED = (
    Case("by the court", {"trainers": LIAR, "appeals": True, "fault_node": MM}),
    Case("by verifiers", {"trainers": LIAR, "fault_node": MM}),
    Case("by a clock", {"trainers": [Fault.NONE, Fault.WITHHOLD]}),
    Case("by the source of an input", {"trainers": [Fault.NONE, Fault.POISON_DATA]}),
)
RUNS: dict[str, dict[str, Any]] = {
    "run, no receipts": {},
    "run, sampled": {"match": [(1, 1), (1, 4)]},
    "run, checked": {"match": [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]},
    "run, found wrong": {"match": [(1, 1), (1, 2)], "differ": [(2, 3)]},
    "run, contradicted": {"match": [(1, 3)], "differ": [(2, 3)]},
    "run, 600 intervals": {"steps": 600, "stride": 1, "match": [(1, k) for k in range(1, 600, 7)]},
}
"""Published runs: which auditor, by its number, has found which interval right or wrong."""


def gallery(start: Start, bundle: Bundle) -> Pages:
    """Yield the name and the HTML of each page. Takes minutes."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _runs(Path(folder))
        yield from _empty(start, Path(folder))
        yield from _generated(start, Path(folder))
        for number, one in enumerate(PLAYED):
            yield from _played(start, Path(folder) / str(number), bundle, one)


def _generated(start: Start, folder: Path) -> Pages:
    found: list[tuple[str, str]] = []

    def keep(page: Any, at: Any, chain: Any, pages: Any) -> None:
        kind = "job" if page.match is None else "dispute"
        found.append((f"{kind}, {page.state.name}", page.html))
        if page.state.name in ("decided by a verdict", "walk"):
            found.append((f"proof, {page.state.name}", pages.proof(page.job, f"{page.match:#066x}")))
            found.append((f"operator, nobody serves it, {page.state.name}", _once_fetched(
                lambda: pages.operator(page.job, f"{page.match:#066x}", None, "", "")
            )))  # fmt: skip
        if page.state.name == "crowd":
            found.append(("jobs, many", pages.home()))
            found.extend((f"jobs, {show}", pages.home(1, show)) for show in SHOW if show != "all")
            client = at.world.client.snapshot().job(page.job).client
            found.append(("account, a client", pages.account(client)))
            found.append(("account, no job", pages.account("0x" + "0" * 40)))
            program = chain.look().job(page.job).program_file.hex()
            found.append(("search, found in many jobs", pages.find(program)[1]))
            found.append(("search, not found", pages.find("0x" + "ab" * 32)[1]))
            found.append(("search, not understood", pages.find("0x1234")[1]))
            found.append(("search, nothing asked", pages.find("")[1]))
            found.append(("no such job", pages.failure("Not here", "There is no job 99.")))

    generated(start(*ANVIL_OPTIONS), folder / "generated", keep)
    yield from found


def _empty(start: Start, folder: Path) -> Pages:
    world = World.on(start(*ANVIL_OPTIONS), "empty", 0)
    chain, pages = explorer(world, folder / "empty")
    chain.tick()
    yield "jobs, none", pages.home()


def _played(start: Start, folder: Path, bundle: Bundle, one: Case) -> Pages:
    with Arena(start(), folder, bundle, **one.options) as arena:
        played = play(arena, bundle, folder)
        pages, job, match = played.pages(), arena.job_id, f"{played.match:#066x}"
        while pages.fetching(job, match):
            time.sleep(0.1)
        yield f"served job, decided {one.name}", pages.job(job)
        yield f"served dispute, decided {one.name}", pages.dispute(job, match)
        yield f"operator, decided {one.name}", pages.operator(job, match, None, "", "")
        yield f"number, decided {one.name}", pages.element(job, match)
        yield f"proof, decided {one.name}", pages.proof(job, match)
        yield (
            f"certificate, decided {one.name}",
            _with_badge(pages.certificate(job), pages.job_certificate(job)),
        )
        for kind, who in _accounts(arena, match).items():
            yield f"account, {kind}, decided {one.name}", pages.account(who)
        yield f"search, a dispute, decided {one.name}", pages.find(match)[1]
        if one is PLAYED[0]:
            whole = pages.whole(job, match, None, "", None)
            yield "graph, of a dispute", _with_data(whole, pages.picture(job, match, None))
            yield "operator, a search", pages.operator(job, match, None, "mm", "")
            yield "dispute, a past moment", pages.dispute(job, match, pages.blocks(job, match)[2])
        if one is PLAYED[1]:
            yield from _in_progress(played)


def _accounts(arena: Arena, match: str) -> dict[str, str]:
    """Return accounts of a job that is over, by what became of them."""
    snapshot = arena.client.snapshot()
    job = snapshot.job(arena.job_id)
    found = snapshot.match(job, int(match, 16))
    lost = found.state.losers >> 1 & 1
    return {"client": job.client, "won": found.terms.players[1 - lost], "lost": found.terms.players[lost]}


def _in_progress(played: Played) -> Pages:
    """A job whose trainers compute: one tells how far it is, one does not answer."""
    arena = played.arena
    arena.post_again(slots=2)
    while not arena.client.snapshot().job(arena.job_id).trainers:
        arena.turn()
    numbers = [(k, [2.5 - 0.04 * k + 0.1 * (k % 3)]) for k in range(1, 24)]
    board, loss = Board(), next(iter(played.bundle.names.metrics.values()))
    board.put(
        RunReport(
            job=arena.job_id,
            program=arena.client.snapshot().job(arena.job_id).program.hash().hex(),
            step=23,
            steps=played.bundle.terms.steps,
            kept=20,
            rate=0.4,
            nodes=[(loss[0], loss[1])],
            history=[Point(step=step, numbers=told) for step, told in numbers],
        )
    )
    with ArtifactServer(Store(played.folder / "told"), board=board) as server:
        pages = played.pages(trainers=(server.uri, NOWHERE))
        yield "job, a run in progress", _once_fetched(lambda: pages.job(arena.job_id))


def _runs(folder: Path) -> Pages:
    auditors = [Account.create(f"auditor {k}") for k in range(3)]
    for name, given in RUNS.items():
        place = folder / name
        publish(place, given.get("steps", 12), given.get("stride", 2))
        run, receipts = opened(place, folder / "cache"), folder / f"{name}, receipts"
        receipts.mkdir()
        for who, interval in given.get("match", ()):
            signed(run, auditors[who], interval).write(receipts)
        for who, interval in given.get("differ", ()):
            signed(run, auditors[who], interval, step=2 * interval, node=1, output=0, element=3).write(
                receipts
            )
        known = [receipts] if given else []
        pages = RunPages(
            str(place), folder / "pages", receipts=known, against=str(folder / "run, no receipts")
        )
        yield name, _with_badge(pages.home(), pages.run_certificate() if given else None)
        if given:
            yield f"certificate, {name}", _with_badge(pages.certificate(), pages.run_certificate())
        if name in ("run, sampled", "run, no receipts"):
            yield f"comparison, {name}", _once_fetched(pages.compare)
    begun, now = run_of(growing(12, (4, 1), 1.5), folder / "begun"), [0.0]
    (begun / "claim.json").unlink()
    unfinished = UnfinishedPages(str(begun), lambda: pages, clock=lambda: now[0])
    yield "run, all steps done, no claim", unfinished.home()
    rows = (begun / "metrics.jsonl").read_text().splitlines(keepends=True)
    for name, count, later in (("in progress", 7, 0), ("stopped", 7, 300), ("no step yet", 0, 0)):
        (begun / "metrics.jsonl").write_text("".join(rows[:count]))
        unfinished.home()
        now[0] += later
        yield f"run, {name}", unfinished.home()
    bundle, place = growing(12, (4, 1)), folder / "graph"
    drawn = RunPages(str(run_of(bundle, place)), folder / "pages", bundles=[bundle])
    for name, words in (("a search", "mul"), ("a search, nothing found", "no such")):
        yield f"graph, {name}", _with_data(drawn.whole(None, words, None), drawn.picture(None))
    yield "graph, an operator", _with_data(drawn.whole(0, "", None), drawn.picture(None))
    told = {"at the first step": [2.25, 2.2500002], "with weights moved by a tenth": [2.125, 2.125]}
    words = "loss and gradients of the first step are those of PyTorch; so are those with weights moved by a tenth"
    beside = replace(bundle, labels={**bundle.labels, "losses": told, "checked": words})
    yield "run, beside eager PyTorch", RunPages(str(place), folder / "pages", bundles=[beside]).home()
    for mode in MODES:
        bundle, place = growing(12, (4, 1)).with_mode(mode.byte), folder / f"mode {mode.name}"
        run_of(bundle, place)
        yield f"run, mode {mode.name}", RunPages(str(place), folder / "pages", bundles=[bundle]).home()


def run_of(bundle: Bundle, folder: Path) -> Path:
    """Compute a bundle's run into a folder, as `assay program run` does; return the folder."""
    terms = bundle.terms
    keeps = KeepRule(every=1)
    with open_run(folder, terms, mode_words(terms.mode), resume=False, keep_s=60, keeps=keeps) as made:
        run = LocalRun(bundle, terms.steps, folder=made)
        run.compute(
            lambda state, metrics: made.metrics.append(state.step, 0.01 * state.step, metrics), lambda: False
        )
    return folder


def _with_badge(page: str, found: Certificate | None) -> str:
    """Return a page with its badge in it: a file has no server to ask for it."""
    if found is None:
        return page
    data = base64.b64encode(found.badge().encode()).decode()
    return re.sub(r'src="[^"]*badge.svg"', f'src="data:image/svg+xml;base64,{data}"', page)


def _with_data(page: str, data: bytes) -> str:
    """Return a page of a graph with the data in it that its script reads."""
    source = f"data:application/json;base64,{base64.b64encode(data).decode()}"
    return re.sub(r'data-source="[^"]*"', f'data-source="{source}"', page)


def _once_fetched(make: Callable[[], str]) -> str:
    """Return a page once nothing on it is being fetched any more."""
    page = make()
    while any(words in page for words in ("being fetched", "being replayed", "is being asked")):
        time.sleep(0.1)
        page = make()
    return page
