"""Finding things: the search, the page of an account, the filters on the list, links of hashes. All by the chain."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from assay_explorer.account_pages import MAX_HITS
from assay_explorer.finding import SHOW, digits_of, filtered, hits, jobs_of
from assay_explorer.named import WORDS, accounts_in, words_in
from assay_explorer.rendering import NotThere
from referee_py.params import BURNED
from referee_py.walk.reason import Reason
from referee_py.walk.sides import sides
from tests.conftest import Anvil
from tests.referee_py.game.chain import ANVIL_OPTIONS
from trainer_node.chain import JobPhase
from trainer_node.chain.events import Event
from trainer_node.client.parties import Parties

from .conftest import Played
from .states import World, explorer
from .test_pages import Reader, get

LOOKS, ROUNDS = 10, 8
"""Looks at the random games, and their rounds between two."""
STRANGER = "0x00000000000000000000000000000000000057a9"


def links(page: Reader) -> set[str]:
    return {str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and "href" in attrs}


def test_a_root_a_match_and_a_transaction_lead_to_their_job(site: str, tried: Played) -> None:
    snapshot = tried.arena.client.snapshot()
    job = snapshot.job(tried.arena.job_id)
    sent = next(event.tx_hash for event in snapshot.job_events(job.id) if event.name == "Claimed")
    asked = [
        *(claim.root.hex() for claim in job.groups),
        f"{tried.match:#066x}",
        f"0x{sent.hex()}",
        f"0x{job.program.hash().hex()}",
        f"0x{job.groups[0].root.hex()[:8]}…",
    ]
    for text in asked:
        page = get(site, str(httpx.URL("/find", params={"q": text})))
        assert f"/job/{job.id}" in links(page), text
        assert "is named in 1 job," in page.text, text
    match = get(site, f"/find?q={tried.match:#066x}")
    assert tried.path in links(match)
    assert "a dispute is decided" in match.text


def test_a_number_and_an_account_lead_to_their_page_at_once(site: str, tried: Played) -> None:
    client = tried.arena.client.snapshot().job(tried.arena.job_id).client
    for text, place in (
        ("1", "/job/1"),
        (" Job #1 ", "/job/1"),
        (client, f"/account/{client.lower()}"),
        (client[2:], f"/account/{client.lower()}"),
        (STRANGER, f"/account/{STRANGER}"),
    ):
        answer = httpx.get(f"{site}/find", params={"q": text})
        assert (answer.status_code, answer.headers["location"]) == (303, place), text
        assert httpx.get(site + place).status_code == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Nothing was asked for"),
        ("99", "is neither the number of a job here"),
        ("0x1234", "is neither the number of a job here"),
        ("<script>alert(1)</script>", "is neither the number of a job here"),
        ("0x" + "ab" * 40, "is neither the number of a job here"),
        ("0x" + "ab" * 32, "No job here names"),
        ("%", "is neither the number of a job here"),
        ("x" * 5000, "is neither the number of a job here"),
        ("\u202e\x00 1", "is neither the number of a job here"),
    ],
)
def test_what_is_not_found_is_said(site: str, text: str, words: str) -> None:
    answer = httpx.get(f"{site}/find", params={"q": text})
    assert answer.status_code == 200
    assert words in Reader(answer.text).text
    assert "<script>alert" not in answer.text
    assert len(answer.text) < 10_000


def test_the_page_of_each_account_is_that_of_the_chain(site: str, tried: Played) -> None:
    snapshot = tried.arena.client.snapshot()
    job = snapshot.job(tried.arena.job_id)
    match = snapshot.match(job, tried.match)
    losers = [match.terms.players[side].lower() for side in sides(match.state.losers)]
    assert len(losers) == 1
    named = set[str]()
    for member in tried.arena.members:
        address = (member.node.address or "").lower()
        page = get(site, f"/account/{address}")
        shown = {str(attrs["id"]): attrs for _, attrs in page.tags if "id" in attrs}
        if f"/job/{job.id}" not in links(page):
            continue
        named.add(str(Parties(job).part(address)))
        assert int(str(shown["profit"]["data-wei"])) == tried.outcome.profit[member.name], member.name
        assert str(Parties(job).part(address)) in page.text
        won, lost = map(int, re.search(r"(\d+) won, (\d+) lost", page.text).groups())  # type: ignore[union-attr]
        players = [player.lower() for player in match.terms.players]
        assert (won, lost) == (int(address in players and address not in losers), int(address in losers))
        claims = [claim for claim in job.claims if claim.owner.lower() == address]
        assert f"{sum(claim.stake for claim in claims) / 10**18:g} ETH" in page.text or not claims
    signed = {str(one.args["verifier"]) for one in hearing_events(tried) if one.name == "Attested"}
    assert named >= {"trainer 1", "trainer 2", *(str(Parties(job).part(who)) for who in signed)}
    assert signed
    assert "No job here names this account" in get(site, f"/account/{STRANGER}").text
    burned = get(site, f"/account/{BURNED}").text
    assert "nobody can withdraw it" in burned
    assert "can withdraw now" not in burned
    for wrong in ("0x12", STRANGER + "0", "x" * 42):
        get(site, f"/account/{wrong}", 404)
    get(site, f"/account/{STRANGER}?page=2", 404)


def hearing_events(tried: Played) -> list[Event]:
    snapshot = tried.arena.client.snapshot()
    hearing = snapshot.hearing(snapshot.job(tried.arena.job_id), tried.match)
    assert hearing is not None
    return snapshot.hearing_events(hearing.id)


def test_every_hash_of_the_pages_is_a_link_to_what_is_known_of_it(site: str, tried: Played) -> None:
    job = f"/job/{tried.arena.job_id}"
    for path in (job, f"{job}/certificate", tried.path, f"{tried.path}/proof"):
        html = httpx.get(site + path, timeout=60).text
        hashes = re.findall(r'<(?:a|code) class="hash[^"]*"(?: href="([^"]*)")?[^>]*>([^<]*)<', html)
        assert len(hashes) > 3
        assert all(link for link, words in hashes if not re.fullmatch("0x[0-9a-fA-F]{40}", words)), path
        for link in {link for link, _ in hashes if link}:
            answer = httpx.get(site + link, follow_redirects=True, timeout=60)
            assert answer.status_code == 200, link


def test_filters_are_those_of_the_jobs(start_module_anvil: Callable[..., Anvil], tmp_path: Path) -> None:
    """Jobs of random games, in all phases; each filter is what the jobs' own views say, and so are their accounts."""
    world = World.on(start_module_anvil(*ANVIL_OPTIONS), 48, 30)
    chain, pages = explorer(world, tmp_path)
    seen: dict[str, set[int]] = {name: set() for name in SHOW}
    parts = 0
    for _ in range(LOOKS):
        world.play(ROUNDS)
        chain.tick()
        look = chain.look()
        jobs = {number: look.job(number) for number in range(1, look.snapshot.job_count() + 1)}
        expected = {
            "all": set(jobs),
            "open": {number for number, job in jobs.items() if not job.phase.ended},
            "disputed": {number for number, job in jobs.items() if look.matches(job)},
            "accepted": {number for number, job in jobs.items() if job.phase is JobPhase.ACCEPTED},
            "no-result": {
                number for number, job in jobs.items() if job.phase in (JobPhase.UNCLAIMED, JobPhase.VOID)
            },
        }
        for name in SHOW:
            found = filtered(look, name)
            assert found == sorted(expected[name], reverse=True), name
            seen[name] |= set(found)
        for address in {claim.owner for job in jobs.values() for claim in job.claims}:
            theirs = {
                number for number, job in jobs.items() if address in {claim.owner for claim in job.claims}
            }
            assert theirs <= set(jobs_of(look, address))
            parts += len(theirs)
    assert all(seen.values()), {name: len(found) for name, found in seen.items()}
    assert parts
    look = chain.look()
    some = next(job for job in map(look.job, filtered(look, "disputed")))
    page = Reader(pages.home(1, "disputed"))
    assert f"/job/{some.id}" in links(page)
    with pytest.raises(NotThere, match="there are all, open"):
        pages.home(1, "mine")
    told = hits(look, f"{look.matches(some)[0]:064x}")
    assert {hit.job for hit in told} == {some.id}
    assert len(told) <= MAX_HITS
    lost = [m for m in look.matches(some) if look.snapshot.match(some, m).state.reason is not Reason.NONE]
    assert ("Resolved" in {hit.event.name for hit in told}) == (look.matches(some)[0] in lost)


def test_digits_are_read_as_pages_show_them() -> None:
    assert digits_of(" 0xABCDEF12… ") == "abcdef12"
    assert digits_of("abcdef1") is None
    assert digits_of("0x" + "0" * 65) is None
    assert digits_of("0xabcdefgh") is None
    assert set(WORDS) >= {"Claimed", "Paired"}


def test_an_address_that_somebody_writes_is_no_account_of_his() -> None:
    """A server's address is free text."""
    args = {"jobId": 1, "owner": "0x" + "Ab" * 20, "root": b"\1" * 32, "uri": STRANGER}
    event = Event("Claimed", args, 5, b"\2" * 32, 0)
    assert accounts_in(event) == {"ab" * 20}
    assert words_in(event) == {"ab" * 20, "01" * 32, "02" * 32}
