"""Commands on the pages: whole, and such that the command line takes them; most are executed as they stand."""

from __future__ import annotations

import html
import re
import shlex
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from eth_account import Account

from assay_explorer.published import RunPages
from assay_explorer.shown_commands import ENDPOINT, chain_flags
from assay_lab.faults import Fault
from tests.conftest import Anvil, Assay
from tests.e2e.arena import Arena
from tests.support.command_line import parsed
from tests.trainer_node.audit.runs import opened, publish, signed
from tests.trainer_node.cli.growing import growing
from trainer_node.chain.codec.claims import with_events
from trainer_node.client.job_certificate import certificate_of
from trainer_node.errors import RpcCorrupt
from trainer_node.ids import short
from trainer_node.local.bundle import Bundle
from trainer_node.settings.settings import load_settings

from .conftest import Played

NAMES = {"JOB", "RECEIPTS", ENDPOINT}
"""Words in capitals that stand for something of the reader's."""
ENDLESS = ("explorer --run", "explorer --bundle", "demo", "job watch")
"""Commands that are not executed here: they run until they are told to stop."""


def commands(page: str) -> list[str]:
    """Return the commands of a page, as they are copied."""
    found = re.findall(r"<code data-command>(.*?)</code>", page, re.S)
    return [html.unescape(re.sub(r"</?span>", "", text)) for text in found]


@pytest.mark.parametrize(
    "words", ["job show", "job show x", "job shown 1", "job show 1 --rpc", "explorer --run", "x"]
)
def test_a_command_that_is_wrong_is_noticed(words: str) -> None:
    with pytest.raises(Exception, match=r".") as found:
        parsed(words.split())
    assert "UsageError" in [kind.__name__ for kind in type(found.value).__mro__], found.value


def executed(command: str) -> bool:
    return not any(command.startswith(f"assay {start}") for start in ENDLESS)


def expect_whole(command: str) -> list[str]:
    """Return the words after `assay` of a command that is not cut, and names its chain if it is about one."""
    assert "…" not in command
    first, *words = shlex.split(command)
    assert first == "assay"
    about_chain = words[0] in ("job", "dispute") or words[:2] in (["explorer", "check"], ["audit", "--job"])
    assert not about_chain or {"--chain-id", "--rpc-url", "--deployment"} <= {*words}, command
    assert {word for word in words if word.isupper() and word.isalpha()} <= NAMES, command
    return words


@pytest.fixture(scope="module")
def shown(tried: Played) -> list[str]:
    """All commands of the pages about a job that is over, once each."""
    pages, job, match = tried.pages(), tried.arena.job_id, f"{tried.match:#066x}"
    made = [pages.home(), pages.job(job), pages.dispute(job, match), pages.proof(job, match)]
    made += [pages.operator(job, match, None, "", ""), pages.element(job, match), pages.certificate(job)]
    return list(dict.fromkeys(command for page in made for command in commands(page)))


def test_commands_about_a_job_are_executed(
    assay: Assay, tried: Played, shown: list[str], tmp_path: Path
) -> None:
    (tmp_path / "deployment.json").write_text(tried.pages().deployment())
    tried.bundle.write(tmp_path / "JOB")
    done = set()
    for command in shown:
        words = expect_whole(command)
        parsed(words)
        if executed(command):
            code, output, errors = assay(*words)
            assert code == 0, (command, output, errors)
            assert words[:2] != ["job", "result"] or errors == "", "a line for each file that was fetched"
            done.add(" ".join(words[:2]))
    assert done == {
        *("job show", "dispute show", "audit --job", "job result", "explorer check", "job certificate"),
    }


def test_commands_about_a_job_with_two_claimed_roots_are_executed(
    assay: Assay, anvil: Anvil, small_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each root has its own check: an audit cannot choose between them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    trainers: Any = {"trainers": [Fault.NONE, Fault.WRONG_OP_OUTPUT], "challenger": None}
    with Arena(anvil, tmp_path / "arena", small_bundle, **trainers) as arena:
        while len((job := arena.client.snapshot().job(arena.job_id)).groups) < 2:
            arena.turn()
        assert not job.phase.ended
        played = Played(arena, cast(Any, None), small_bundle, tmp_path)
        pages = played.pages()
        (tmp_path / "deployment.json").write_text(pages.deployment())
        page, audits = pages.job(arena.job_id), dict[str, int]()
        for command in commands(page):
            words = expect_whole(command)
            parsed(words)
            if words[0] == "audit":
                root = words[words.index("--root") + 1]
                audits[root], output, errors = assay(*words, "--out", root)
                assert root in output, errors
            elif executed(command):
                code, output, errors = assay(*words)
                assert code == 0, (command, output, errors)
    honest, wrong = sorted(audits, key=audits.__getitem__)
    assert {honest, wrong} == {group.root.hex() for group in job.groups}
    assert (audits[honest], audits[wrong]) == (0, 1), "one of them is a lie"
    assert all(f"run with root {short(root)}, one of 2:" in page for root in audits)


def test_the_certificate_of_a_job_is_that_of_its_page(assay: Assay, tried: Played, tmp_path: Path) -> None:
    pages, job = tried.pages(), tried.arena.job_id
    (tmp_path / "deployment.json").write_text(pages.deployment())
    (command,) = commands(pages.certificate(job))
    tried.bundle.write(tmp_path / "JOB")
    code, output, errors = assay(*shlex.split(command)[1:])
    assert code == 0, errors
    told = (tmp_path / "certificate/certificate.json").read_bytes()
    assert told == pages.job_certificate(job).statement()
    found = tried.arena.client.snapshot().job(job)
    assert found.accepted_root.hex() in told.decode()
    assert tried.arena.address("trainer-0") in told.decode()
    assert "Every tensor that the run has changed was compared" not in told.decode(), "nothing was fetched"
    assert output.startswith(f"job {job}: accepted, ")
    wrong = growing(4, (2, 1)).write(tmp_path / "WRONG")
    files = growing(4, (2, 1)).program.file_hash().hex(), tried.bundle.program.file_hash().hex()
    for words in (command, next(one for one in commands(pages.job(job)) if " job result " in one)):
        given = [str(wrong) if word == "JOB" else word for word in shlex.split(words)[1:]]
        code, _, errors = assay(*given, *(() if str(wrong) in given else ("--bundle", wrong)))
        assert code == 2
        assert all(part in errors for part in ("'growing'", *files, "leave out --bundle")), errors


def test_a_job_whose_claims_are_not_shown_has_no_certificate(tried: Played) -> None:
    client = tried.arena.client
    job = with_events(client.snapshot().job(tried.arena.job_id), ())
    with pytest.raises(RpcCorrupt, match=r"no event of .* claims .* use one with complete logs"):
        certificate_of(client.snapshot(), client.deployment, job, None)


def test_commands_of_pages_in_every_state(made_pages: dict[str, str]) -> None:
    count = 0
    for name, page in made_pages.items():
        found = commands(page)
        assert page.count('class="copy"') == len(found), name
        for command in found:
            parsed(expect_whole(command))
            count += 1
    assert count > 50
    starts = {tuple(command.split()[1:3]) for page in made_pages.values() for command in commands(page)}
    wanted = {("program", "build"), ("job", "post"), ("demo", "--explorer"), ("explorer", "--bundle")}
    assert wanted | {("job", "watch"), ("explorer", "check")} <= starts


@pytest.fixture(scope="module")
def made_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Pages of games, one for each phase and more."""
    from tests.conftest import _chains
    from tests.referee_py.game.chain import ANVIL_OPTIONS

    from .states import World, explorer

    found: dict[str, str] = {}
    with _chains() as start:
        anvil, folder = start(*ANVIL_OPTIONS), tmp_path_factory.mktemp("commands")
        found["no job"] = explorer(World.on(anvil, "empty", 0), folder / "empty")[1].home()
        world = World.on(anvil, "commands", 12)
        chain, pages = explorer(world, folder)
        for turn in range(4):
            world.play(25)
            chain.tick()
            for game in world.cohort.games:
                found[f"job {game.job_id} in turn {turn}"] = pages.job(game.job_id)
            for match in (match for game in world.cohort.games[:4] for match in game.matches[:2]):
                number = f"{match.terms.match_id:#066x}"
                found[f"proof {number} in turn {turn}"] = pages.proof(match.job_id, number)
        operator = partial(pages.operator, match.job_id, number, None, "", "")
        while "being fetched" in (page := operator()):
            time.sleep(0.1)
        found["an operator that nobody serves"] = page
    return found


def test_commands_of_a_published_run(assay: Assay, tmp_path: Path) -> None:
    """In a folder whose name a shell would take apart."""
    folder = publish(tmp_path / "a run; it's (mine)", 6, 2)
    run, receipts = opened(folder, tmp_path / "cache"), tmp_path / "my receipts"
    receipts.mkdir()
    signed(run, Account.create(), 1).write(receipts)
    bare = RunPages(str(folder), tmp_path / "pages")
    told = RunPages(str(folder), tmp_path / "pages", receipts=[receipts], against=str(folder))
    compared = told.compare()
    made = [bare.home(), told.home(), told.certificate(), compared]
    done = set()
    for command in dict.fromkeys(command for page in made for command in commands(page)):
        words = expect_whole(command)
        parsed(words)
        if executed(command):
            code, output, errors = assay(*words)
            assert code == 0, (command, output, errors)
            done.add(" ".join(words[:2]) if words[0] == "run" else words[0])
    assert done == {"audit", "run certificate", "run diff"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("https://rpc.example.org/v3/0123456789abcdef", ENDPOINT),
        ("http://user:secret@localhost:8545", ENDPOINT),
    ],
)
def test_no_page_shows_the_key_of_a_provider(url: str, shown: str) -> None:
    assert chain_flags(load_settings(rpc_url=url, chain_id=31337))[3] == shown
