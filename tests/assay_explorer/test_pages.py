"""What the pages show is what the chain says."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from hexbytes import HexBytes
from repops.opset import Dtype
from safetensors.numpy import load_file

from assay_explorer.element import Number, ulps
from assay_explorer.export import export
from referee_py.params import BURNED
from trainer_node.chain import transactions_of

from .conftest import MAX_BYTES, MM, Played


class Reader(HTMLParser):
    """Text, links and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def having(self, name: str) -> dict[str, str]:
        """Return by the value of an attribute the tag's other attributes, as text."""
        return {str(attrs[name]): str(attrs) for _, attrs in self.tags if name in attrs}


def get(site: str, path: str, code: int = 200) -> Reader:
    answer = httpx.get(site + path, timeout=60)
    assert answer.status_code == code, answer.text
    return Reader(answer.text)


def test_the_ladder_is_that_of_the_chain(site: str, tried: Played) -> None:
    snapshot = tried.arena.client.snapshot()
    job = snapshot.job(tried.arena.job_id)
    match = snapshot.match(job, tried.match)
    page = get(site, tried.path)
    titles = {str(attrs["title"]) for _, attrs in page.tags if "title" in attrs}
    titles |= {str(attrs["href"]).rpartition("=")[2] for _, attrs in page.tags if "href" in attrs}
    assert {f"0x{root.hex()}" for root in match.terms.roots} <= titles
    assert {f"0x{node.hex()}" for node in match.state.node} <= titles
    assert set(match.terms.players) <= titles
    assert f"step {match.state.end}, operator {match.state.index}, element" in page.text
    for rung in ("Hearing", "Verdict", "Appeal", "Trial", "Element", "Decision · wrong output"):
        assert rung in page.text, rung
    eth = tried.arena.web3.eth
    first = snapshot.events(tried.match)[0].tx_hash
    hashes = dict.fromkeys([first, *transactions_of(snapshot, job, tried.match)])
    receipts = [eth.get_transaction_receipt(HexBytes(tx_hash)) for tx_hash in hashes]
    gas = sum(receipt["gasUsed"] for receipt in receipts)
    assert f"{len(receipts)} transactions, {gas:,} gas" in page.text
    for receipt in receipts:
        assert f"{receipt['gasUsed']:,}" in page.text
        assert f"0x{receipt['transactionHash'].hex()}" in titles


def test_no_page_of_a_dispute_is_heavy(site: str, tried: Played) -> None:
    """Though this one went all the way to the court, with a rung for each of its moves."""
    job = f"/job/{tried.arena.job_id}"
    for path in (
        "/",
        job,
        tried.path,
        *(f"{tried.path}/{part}" for part in ("operator", "element", "proof")),
    ):
        weight = len(httpx.get(site + path, timeout=60).content)
        assert weight <= MAX_BYTES, path


def test_a_liars_step_is_scrubbed_back_and_forth(site: str, tried: Played) -> None:
    events = tried.arena.client.snapshot().events(tried.match)
    blocks = sorted({event.block for event in events})
    opened = get(site, f"{tried.path}?at={blocks[0]}")
    assert "Decision" not in opened.text
    assert "is searching where they part" in opened.text
    clocks = [str(attrs["data-left"]) for _, attrs in opened.tags if "data-left" in attrs]
    assert clocks == ["600", "600"], "nobody has spent anything when the dispute opens"
    middle = get(site, f"{tried.path}?at={blocks[-2]}")
    assert "Operator" in middle.text
    again = get(site, f"{tried.path}?at={blocks[0]}")
    assert again.text == opened.text
    get(site, f"{tried.path}?at={blocks[0] - 1}", 404)


def test_the_number_is_that_of_the_trial(site: str, tried: Played) -> None:
    snapshot = tried.arena.client.snapshot()
    job = snapshot.job(tried.arena.job_id)
    hearing = snapshot.hearing(job, tried.match)
    assert hearing is not None
    trial = snapshot.trial(hearing)
    page = get(site, f"{tried.path}/element")
    first, second = (Number(value, Dtype.F32) for value in trial.state.values)
    for number in (first, second):
        assert number.hex in page.text
        assert number.decimal in page.text
    assert f"{ulps(first, second):,}" in page.text
    assert f"element {trial.state.element}" in page.text
    assert f"How this number comes about: {trial.state.steps} steps" in page.text
    honest = trial.state.values[0 if trial.state.losers == 2 else 1]
    right = page.text[page.text.index("Computed here from the agreed inputs") :]
    assert Number(honest, Dtype.F32).hex in right[:200]
    record = hearing.terms.dispute.records[0]
    links = [
        str(attrs["href"])
        for tag, attrs in page.tags
        if tag == "a" and "/v1/tensor/" in str(attrs.get("href"))
    ]
    assert {link.rpartition("/")[2] for link in links} == {tensor.hex() for tensor in record.inputs}
    served = httpx.get(links[0])
    assert served.status_code == 200


def test_the_numbers_are_shown_without_a_trial_too(tried: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a verdict: the chain has no numbers then, but servers have the tensors."""
    snapshot, number, match = tried.arena.client.snapshot(), tried.arena.job_id, f"{tried.match:#066x}"
    hearing = snapshot.hearing(snapshot.job(number), tried.match)
    assert hearing is not None
    values = [Number(value, Dtype.F32).decimal for value in snapshot.trial(hearing).state.values]
    pages = tried.pages()
    monkeypatch.setattr(pages, "numbers", lambda *_: None)
    while pages.fetching(number, match):
        time.sleep(0.1)
    for page in (pages.dispute(number, match), pages.job(number)):
        assert f"{values[0]} ≠ {values[1]}" in Reader(page).text
    opened = min(pages.blocks(number, match))
    assert values[0] not in pages.dispute(number, match, opened), "nobody knew them then"


def test_the_operator_is_the_programs(site: str, tried: Played) -> None:
    page = get(site, f"{tried.path}/operator")
    structure = tried.bundle.program.nodes[MM]
    assert f"Operator {MM} · {structure.name}" in page.text
    assert str(structure.outputs[0]) in page.text
    assert "aten.addmm.default" in page.text
    for k, operand in enumerate(structure.inputs):
        assert f"{k}: operator {operand.index}" in page.text
        links = [str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and "href" in attrs]
        assert sum(link.endswith(f"?node={operand.index}") for link in links) >= 3, (
            "two drawings, and the list"
        )
    found = get(site, f"{tried.path}/operator?q=mm")
    count = sum(
        "mm" in node.name or "mm" in tried.bundle.names.label(k)
        for k, node in enumerate(tried.bundle.program.nodes)
    )
    assert f"{count} operators" in found.text
    get(site, f"{tried.path}/operator?node=100000", 404)


def test_the_money_is_that_of_the_accounts(site: str, tried: Played) -> None:
    page = get(site, f"/job/{tried.arena.job_id}")
    names = {member.name: (member.node.address or "") for member in tried.arena.members}
    rows = {}
    account = ""
    for _, attrs in page.tags:
        account = str(attrs.get("data-account", account))
        if "data-wei" in attrs:
            rows[account.lower()] = int(str(attrs["data-wei"]))
    for name, profit in tried.outcome.profit.items():
        assert rows.get(names[name].lower(), 0) == profit, name
    assert sum(rows.values()) == 0, "what one party pays, others get, or it is burned"
    assert rows[BURNED.lower()] > 0
    assert "burned" in page.text.split(), "and it is nobody's profit"


def test_the_proof_has_commands_that_check_it_again(site: str, tried: Played) -> None:
    page = get(site, f"{tried.path}/proof")
    assert "they decide the same as the contracts" in page.text
    assert f"assay explorer check {tried.arena.job_id} {tried.match:#066x}" in page.text
    checked = tried.pages().check(tried.arena.job_id, hex(tried.match))
    assert len(checked) == 3
    assert all(holds for _, holds in checked), checked


def test_the_result_can_be_downloaded(site: str, tried: Played, tmp_path: Path) -> None:
    answer = httpx.get(f"{site}/job/{tried.arena.job_id}/result", timeout=60)
    (tmp_path / "result").write_bytes(answer.content)
    found = load_file(tmp_path / "result")
    assert sorted(found) == sorted(tried.bundle.names.slots)


def test_a_live_page_is_sent_again_only_if_it_has_changed(site: str, tried: Played) -> None:
    page = get(site, tried.path)
    (live,) = [str(attrs["hx-get"]) for _, attrs in page.tags if "hx-get" in attrs]
    assert httpx.get(site + live).status_code == 204
    assert httpx.get(site + live[:-1] + "!").status_code == 200


def test_the_policy_lets_a_browser_load_nothing_from_elsewhere(site: str, tried: Played) -> None:
    for path in ("/", f"/job/{tried.arena.job_id}", tried.path, "/nothing", "/static/style.css"):
        headers = httpx.get(site + path).headers
        assert headers["content-security-policy"].startswith("default-src 'none';")
        assert "unsafe" not in headers["content-security-policy"]
    for _, attrs in get(site, tried.path).tags:
        assert not any(name == "style" or name.startswith("on") for name in attrs)


@pytest.mark.parametrize(
    "path", ["/job/0", "/job/99", "/job/1/dispute/0x00", "/job/x", "/?page=9", "/static/../pages.py"]
)
def test_what_is_not_there_is_said(site: str, path: str) -> None:
    assert httpx.get(site + path).status_code == 404


def test_another_name_for_this_machine_is_refused(tried: Played) -> None:
    from .conftest import served

    pages = tried.pages()
    pages.hosts = frozenset({"127.0.0.1"})
    with served(pages) as address:
        assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 421
        assert httpx.get(address).status_code == 200


def test_a_static_copy_has_every_page_and_no_link_that_leads_nowhere(tried: Played, tmp_path: Path) -> None:
    written = export(tried.pages(static=True), tried.arena.job_id, hex(tried.match), tmp_path / "copy")
    names = {path.name for path in written}
    assert {"index.html", "job.html", "operator.html", "element.html", "proof.html"} < names
    for path in written:
        for tag, attrs in Reader(path.read_text()).tags:
            target = str(attrs.get("href") or attrs.get("src") or "#")
            local = not target.startswith(("#", "http://127.0.0.1:"))
            assert not local or (path.parent / target).exists(), (path.name, tag, target)
