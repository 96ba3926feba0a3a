"""Pages in every state: they say what is so by the chain's model, and nothing that is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from assay_explorer.chain import Chain
from assay_explorer.pages import Pages
from assay_explorer.text import ether, seconds
from referee_py.game.state import Phase
from referee_py.jobs import JobPhase
from tests.conftest import Anvil
from tests.referee_py.game.chain import ANVIL_OPTIONS
from tests.support.command_line import parsed

from .conftest import MAX_BYTES
from .states import STATES, Now, Page, generated
from .test_commands import commands, expect_whole
from .test_pages import Reader

MORE_JOBS = 8


@dataclass(frozen=True)
class Truth:
    """Facts about a job by the model and the parties' own runs, at the instant of its page.

    left     seconds to the end of the phase, if anything ends then
    first    by the ids of matches about the root that is ahead: the interval, from 0, in which the two runs part
    walked   those of them in which the contract has found it
    """

    reward: int
    claims: int
    left: int
    first: dict[int, int]
    walked: frozenset[int]

    @classmethod
    def of(cls, at: Now) -> Truth:
        job, runs = at.game.job, {party.run.root: party.run for party in at.game.parties}
        ends = {
            JobPhase.TRAINING: job.commit_end,
            JobPhase.REVEAL: job.reveal_end,
            JobPhase.CHALLENGE: job.challenge_end,
            JobPhase.CLOSING: max(job.reclaim_end, job.challenge_end),
        }
        best = max(at.living, key=lambda group: len(group.members), default=None)
        refutations = {group.root for group in job.groups if group.refutes is not None}
        first, walked = {}, set()
        for match in at.game.matches:
            pair = match.terms.roots
            if best is None or best.root not in pair or refutations & {*pair} or not {*pair} <= runs.keys():
                continue
            one, other = (runs[root].claim_tree.leaves for root in pair)
            first[match.terms.match_id] = next(k for k, leaf in enumerate(one) if leaf != other[k])
            if match.state.level > 0 or match.state.phase is Phase.HEARING:
                walked.add(match.terms.match_id)
        open_ended = at.phase is JobPhase.CLOSING and job.open_matches
        left = 0 if open_ended else max(0, ends.get(at.phase, 0) - at.now)
        return cls(job.reward, len(job.claims), left, first, frozenset(walked))


Made = dict[str, tuple[Page, Truth]]


@pytest.fixture(scope="module")
def made(start_module_anvil: Callable[..., Anvil], tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Pages by the names of their states, with the truth at that instant; those of some other jobs, too."""
    found: Made = {}

    def keep(page: Page, at: Now, _: Chain, pages: Pages) -> None:
        found[page.state.name] = page, Truth.of(at)
        # NOTE: jobs with disputes besides, since in few of them both sides agree on some intervals.
        disputed = [game for game in at.world.cohort.games if game.sane and game.matches][:MORE_JOBS]
        for game in disputed if page.match is not None else ():
            job = Page(page.state, pages.job(game.job_id), game.job_id, None)
            found[f"job {game.job_id} at {page.state.name}"] = job, Truth.of(replace(at, game=game))

    left = generated(start_module_anvil(*ANVIL_OPTIONS), tmp_path_factory.mktemp("states"), keep)
    assert left == []
    return found


@pytest.mark.parametrize("name", [state.name for state in STATES])
def test_a_page_says_what_is_so(made: Made, name: str) -> None:
    page, _ = made[name]
    text = Reader(page.html).text
    for words in page.state.says:
        assert words in text, words
    for words in page.state.never:
        assert words not in text, words
    assert not re.search(r"[a-z]\.[A-Z]", text), "a space between sentences"
    for command in commands(page.html):
        parsed(expect_whole(command))
    for kind in ("equal", "different", "after", "open") if page.match is not None else ():
        key = {"equal": "checked", "different": "disputed", "after": "unseen"}.get(kind, kind)
        shown = f'class="cell {kind}"' in page.html, f'class="key {key}"' in page.html
        assert shown in ((True, True), (False, False)), f"{kind}: the legend is of what is drawn"
    assert len(page.html.encode()) <= MAX_BYTES
    assert not re.search(r"\bside [01]\b|\bliars?\b", text), "one vocabulary: docs/glossary.md"


def test_numbers_of_jobs_are_those_of_the_model(made: Made) -> None:
    checked = timed = 0
    for name, (page, truth) in made.items():
        if page.match is not None:
            continue
        reader = Reader(page.html)
        assert ether(truth.reward) in reader.text, name
        assert f"{seconds(truth.left)} left" in reader.text or not truth.left, name
        assert " left" in reader.text or truth.left == 0, name
        rows = sum(tag == "td" and attrs.get("class") == "claim" for tag, attrs in reader.tags)
        assert rows == truth.claims, name
        kinds = {str(a["data-kind"]): int(str(a["data-count"])) for _, a in reader.tags if "data-kind" in a}
        timed += truth.left > 0
        if truth.first and "unseen" in kinds:
            # INVARIANT: nothing is called checked that the two runs do not have in common.
            assert kinds.get("checked", 0) <= max(truth.first.values()), name
            walked = [truth.first[match] for match in truth.walked]
            assert kinds.get("checked", 0) >= max(walked, default=0) - kinds.get("disputed", 0), name
            assert kinds.get("disputed", 0) >= bool(walked), name
            checked += kinds.get("checked", 0) > 0
    assert checked > 1
    assert timed > 10


def test_whose_clock_ran_out_has_no_seconds_left(made: Made) -> None:
    html = made["decided, timeout"][0].html
    losers = html.count('<span class="badge bad">lost</span>')
    assert losers
    assert html.count("<dd>ran out</dd>") == losers
    assert html.count("data-clock=") <= 2 - losers
    assert ("neither side answered" in html, "a side did not answer" in html) == (losers == 2, losers == 1)


def test_colours_are_not_all_that_tells_intervals_apart() -> None:
    from assay_explorer.drawing import HEIGHTS, SIGNS

    cues = {kind: (height, SIGNS.get(kind)) for kind, height in HEIGHTS.items()}
    assert len({cues[kind] for kind in ("checked", "sampled", "unseen", "disputed")}) == 4
