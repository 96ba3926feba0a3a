"""Strangers' words stay words: labels, names and addresses made to break a page, and programs at the limits."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from typing import Any

import pytest
from repops.opset import Dtype

from assay_explorer.artifacts import Got
from assay_explorer.chain import Look
from assay_explorer.text import ether_short, is_digest, link, said, seconds, several
from assay_explorer.web import ASSETS
from assay_explorer.whole_graph import WholeGraph
from referee_py.program import Kind, Operand, Structure, TensorType
from referee_py.program.describe import Names
from trainer_node.chain import JobView

from .conftest import Played

MAX_PAGE = 2_000_000
NODES = 10_000
PIECES = (
    *(
        "<script>alert(1)</script>",
        "<img src=http://evil.example/x onerror=alert(1)>",
        "'\"><svg/onload=x>",
        "{{ 7*7 }}",
    ),
    *(
        "{% include 'base.html' %}",
        "javascript:alert(1)",
        "http://evil.example/",
        "\u202egnp.exe",
        "\x1b[31m",
        "\x00",
    ),
    *(
        "e\u0301\u0302\u0303\u0304\u0305" * 20,
        "]]>",
        "<!--",
        "</title>",
        "&lt;b&gt;",
        "A" * 5000,
        "\u2028",
        "𝒳",
        "data:text/html,x",
    ),
    *(
        "https://user@evil.example",
        "//evil.example",
        "@@digest@@",
        " style=color:red",
        "</main></body>",
        "\ufeff",
    ),
)


def hostile(count: int) -> list[str]:
    """Return generated words, the same in every run."""
    draw = random.Random(22)
    return ["".join(draw.choices(PIECES, k=draw.randint(1, 4))) + f" #{k}" for k in range(count)]


class Checker(HTMLParser):
    """Notes everything on a page that a stranger could want there."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(str(given.get("src", "words of its own")))
        if tag in ("img", "iframe", "object", "base", "embed") or any(
            n.startswith("on") or n == "style" for n in given
        ):
            self.bad.append(f"{tag} {given}")
        for name in ("href", "src", "action", "hx-get"):
            target = str(given.get(name) or "/")
            if target.startswith(("/", "?", "#")) and not target.startswith("//"):
                continue
            trusted = (
                tag == "a"
                and given.get("rel") == "noopener noreferrer nofollow"
                and target.startswith("http")
            )
            if not trusted:
                self.bad.append(f"{tag} {name} {target[:80]}")


def expect_safe(page: str) -> None:
    found = Checker(page)
    assert found.bad == []
    assert {*found.scripts} <= {f"/static/{name}" for name in ASSETS}, "no script but our own"
    assert len(found.scripts) == len({*found.scripts})
    assert len(page.encode()) < MAX_PAGE
    assert "\u202e" not in page
    assert "\x1b" not in page


@pytest.fixture
def strangers(tried: Played, monkeypatch: pytest.MonkeyPatch) -> Played:
    """The dispute, as it would be if all its words were a stranger's."""
    words = hostile(200)
    nodes = len(tried.bundle.program.nodes)
    labels = {
        **tried.bundle.labels,
        "nodes": words[:nodes],
        "metrics": {words[-1]: [nodes - 1, 0]},
    }
    read = Look.job

    def job(look: Look, number: int) -> JobView:
        found = read(look, number)
        claims = tuple(replace(claim, uri=words[-2 - k]) for k, claim in enumerate(found.claims))
        return replace(found, uri=words[-9], claims=claims)

    monkeypatch.setattr(Look, "job", job)
    return replace(tried, bundle=replace(tried.bundle, name=words[0], labels=labels))


def test_two_hundred_words_stay_words(strangers: Played) -> None:
    pages, number, match = strangers.pages(), strangers.arena.job_id, hex(strangers.match)
    nodes = len(strangers.bundle.program.nodes)
    made = [pages.home(), pages.job(number), pages.dispute(number, match), pages.proof(number, match)]
    made += [pages.operator(number, match, node, "", "") for node in range(nodes)]
    made += [pages.operator(number, match, None, word, word) for word in hostile(200)]
    made += [pages.failure(word, word) for word in hostile(200)]
    for page in made:
        expect_safe(page)
    assert "&lt;script&gt;" in "".join(made), "what they wrote is shown"


def test_pages_of_a_program_of_ten_thousand_nodes(tried: Played) -> None:
    draw = random.Random(7)
    row = TensorType(Dtype.F32, (4, 4))
    first = Structure.make("full", (), (row,), dtype=Dtype.F32, shape=(4, 4), bits=0)
    nodes = [first]
    for number in range(1, NODES):
        # NOTE: everything reads the first node, so that it has more neighbours than any page can show.
        sources = Operand(Kind.NODE, draw.randrange(number)), Operand(Kind.NODE, 0)
        nodes.append(Structure.make("add", sources, (row,)))
    program = replace(tried.bundle.program, nodes=tuple(nodes))
    words = hostile(200)
    names = Names(nodes=tuple(words[k % 200] + f" module{k % 3000}: call" for k in range(NODES)))
    pages, number, match = tried.pages(), tried.arena.job_id, hex(tried.match)
    graph = WholeGraph(program, names)
    pages.graph = lambda _job, _wait_s=0.0: Got(graph)  # type: ignore[assignment,method-assign]
    asked = [(node, "") for node in (0, NODES // 2, NODES - 1)] + [
        (None, word) for word in ("add", "module7", "")
    ]
    makers = [partial(pages.operator, number, match, node, word, "") for node, word in asked]
    makers += [partial(pages.whole, number, match, node, word, None) for node, word in asked]
    makers.append(partial(pages.whole, number, match, None, "", 7))
    spent, weights = [], []
    for make in makers:
        began = time.process_time()
        page = make()
        spent.append(time.process_time() - began)
        weights.append(len(page.encode()))
        expect_safe(page)
    print(f"{max(spent):.2f} s of processor a page at most, {max(weights):,} bytes at most")


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "http://a b",
        "http://u:p@evil.example",
        "HTTP:x",
        "",
        "ftp://x",
    ],
)
def test_only_plain_web_addresses_become_links(uri: str) -> None:
    assert link(uri) is None


def test_small_amounts_are_not_nothing() -> None:
    amounts = 0, 1, 44_776, 10**9, 3 * 10**13, 10**14, 15 * 10**17
    shown = ["0 ETH", "1 wei", "44,776 wei", "1 gwei", "30000 gwei", "0.0001 ETH", "1.5 ETH"]
    assert list(map(ether_short, amounts)) == shown


def test_hashes_and_numbers_are_known_as_such() -> None:
    digits = "0123456789abcdefABCDEF" * 2 + "0" * 20
    assert all(map(is_digest, (digits, f"0x{digits}", f"0x{digits[:40]}")))
    assert not any(
        map(is_digest, (digits[:40], f"0x{digits[:41]}", f"{digits}\n", f"f32[4] {digits}", "x" * 64))
    )
    assert [several(count, "step") for count in (1, 2, 4000)] == ["step", "2 steps", "4,000 steps"]


def test_words_are_cut_and_cleaned() -> None:
    assert link("https://example.org:8080/a/") == "https://example.org:8080/a"
    assert said("a\nb\u202ec\x07") == "a�b�c�"
    assert len(said("x" * 10_000)) == 120
    assert len(said("e" + "\u0301" * 500)) == 3 + 1 or len(said("e" + "\u0301" * 500)) <= 120
    assert [seconds(n) for n in (5, 119, 120, 3600, 90_000, -5)] == [
        "5 s",
        "119 s",
        "2 min",
        "1 h",
        "1 d 1 h",
        "−5 s",
    ]
