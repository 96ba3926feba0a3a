"""Server and fetcher over real HTTP on 127.0.0.1, against servers that lie, stall or send without end."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Counter

from referee_py.commit import Record, Tag, Tree
from referee_py.errors import InvalidInput, Unavailable
from referee_py.rounding.step_log import StepLog
from tests.referee_py.rounding.logs import node_log
from trainer_node.errors import ConfigError, Corrupt
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import PARALLEL, Fetcher
from trainer_node.network.sources import Served
from trainer_node.network.uri import check_uri
from trainer_node.observe.problems import Problems
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store import Store

from ..desk import until
from ..slow import Hand, SlowServer

PAYLOAD = b"the program " * 100
WANTED = hashlib.sha256(PAYLOAD).digest()


def h(number: int) -> bytes:
    return bytes([number]) * 32


@pytest.fixture
def served(tmp_path: Path) -> Store:
    return Store(tmp_path / "served", sync=False)


@pytest.fixture
def server(served: Store) -> Iterator[ArtifactServer]:
    with ArtifactServer(served) as server:
        yield server


@pytest.fixture
def mine(tmp_path: Path) -> Store:
    return Store(tmp_path / "mine", sync=False)


@pytest.fixture
def fetcher(mine: Store) -> Fetcher:
    return Fetcher(mine, timeout_s=60.0, attempts=2, backoff_s=0.01)


@pytest.fixture
def impatient(mine: Store) -> Fetcher:
    """A fetcher for servers that stall."""
    return Fetcher(mine, timeout_s=0.5, min_rate=1e9, attempts=2, backoff_s=0.01)


@pytest.fixture
def hostile() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start raw servers: `hostile(answer)` returns the base URI of one that calls `answer` for each connection."""
    open_sockets: list[socket.socket] = []

    def start(answer: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        open_sockets.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            try:
                with connection:
                    connection.recv(65536)
                    answer(connection)
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in open_sockets:
        listener.close()


def head(length: int | None, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *more, "Connection: close"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_every_kind_travels(served: Store, server: ArtifactServer, mine: Store, fetcher: Fetcher) -> None:
    tensor = np.arange(3000, dtype=np.int64).reshape(3, 1000)
    tree = Tree(Tag.STEP_TREE, [h(i) for i in range(5)])
    record = Record(h(1), (h(2),), (h(3), h(4)))
    uris = [server.uri + "/"]
    assert Served(fetcher, uris).blob(served.put_blob(PAYLOAD)) == PAYLOAD
    assert (Served(fetcher, uris).tensor(served.put_tensor(tensor)) == tensor).all()
    assert Served(fetcher, uris).tree(Tag.STEP_TREE, served.put_tree(tree), 5).leaves == tree.leaves
    assert Served(fetcher, uris).record(served.put_record(record)) == record
    log = StepLog({3: node_log(10, {2: True})})
    assert Served(fetcher, uris).log(served.put_logs([log], 5)[0], 5) == log
    assert mine.has(Name(Kind.BLOB, WANTED))


def test_a_step_log_that_unpacks_to_more_than_allowed_is_not_kept(
    served: Store, server: ArtifactServer, mine: Store, fetcher: Fetcher
) -> None:
    log = StepLog({3: node_log(20_000, {}, dict.fromkeys(range(20_000), 1.0))})
    (root,) = served.put_logs([log], 5)
    with pytest.raises(Corrupt, match="99999"):
        Served(fetcher, [server.uri]).log(root, 5, 99_999)
    assert not mine.has(Name(Kind.LOG, root, count=5))
    assert Served(fetcher, [server.uri]).log(root, 5, 100_050) == log


def test_what_is_in_the_store_is_not_asked_for(mine: Store, fetcher: Fetcher) -> None:
    assert Served(fetcher, []).blob(mine.put_blob(PAYLOAD)) == PAYLOAD


def test_many_at_once(served: Store, server: ArtifactServer, mine: Store, fetcher: Fetcher) -> None:
    names = [Name(Kind.TENSOR, served.put_tensor(np.full(600, i, np.float32))) for i in range(40)]
    fetcher.fetch_all(names, [server.uri])
    assert all(mine.has(name) for name in names)
    with pytest.raises(Unavailable):
        fetcher.fetch_all([*names, Name(Kind.TENSOR, h(7))], [server.uri])


def test_what_is_asked_for_goes_out_side_by_side(served: Store, mine: Store, fetcher: Fetcher) -> None:
    """Whatever its kind: a server that answers nothing until all are asked for answers all of them."""
    trees = [Tree(Tag.STEP_TREE, [h(k)] * 3) for k in range(8)]
    logs = [StepLog({3: node_log(10, {k: True})}) for k in range(8)]
    names = [Name(Kind.TENSOR, served.put_tensor(np.full(6, k, np.float32))) for k in range(8)]
    names += [Name(Kind.TREE, served.put_tree(tree), Tag.STEP_TREE, 3) for tree in trees]
    names += [Name(Kind.RECORD, served.put_record(Record(h(k), (), (h(k),)))) for k in range(8)]
    names += [Name(Kind.LOG, root, count=5) for root in served.put_logs(logs, 5)]
    assert len(set(names)) == PARALLEL
    with SlowServer(served, Hand(), holds=True) as server, ThreadPoolExecutor(1) as thread:
        fetching = thread.submit(fetcher.fetch_all, names, [server.uri])
        until(lambda: len(server.seen) == len(names))
        server.release.set()
        fetching.result(120)
    assert all(mine.has(name) for name in names)


def test_fetch_inside_an_event_loop(served: Store, server: ArtifactServer, fetcher: Fetcher) -> None:
    served.put_blob(PAYLOAD)

    async def main() -> bytes:
        return Served(fetcher, [server.uri]).blob(WANTED)

    assert asyncio.run(main()) == PAYLOAD


def test_tree_of_other_depth_with_the_same_root(
    served: Store, server: ArtifactServer, fetcher: Fetcher
) -> None:
    deep = Tree(Tag.RUN_TREE, [h(i) for i in range(4)])
    shallow = Tree(Tag.RUN_TREE, [deep.node(1, 0), deep.node(1, 1)])
    served.put_tree(deep)
    with pytest.raises(Unavailable):
        Served(fetcher, [server.uri]).tree(Tag.RUN_TREE, deep.root, 2)
    served.put_tree(shallow)
    assert Served(fetcher, [server.uri]).tree(Tag.RUN_TREE, deep.root, 2).leaves == shallow.leaves
    assert Served(fetcher, [server.uri]).tree(Tag.RUN_TREE, deep.root, 4).leaves == deep.leaves


def test_missing_everywhere(server: ArtifactServer, fetcher: Fetcher) -> None:
    with pytest.raises(Unavailable, match="404"):
        Served(fetcher, [server.uri]).blob(WANTED)
    with pytest.raises(Unavailable, match="no server"):
        Served(fetcher, []).blob(WANTED)


def test_a_liar_does_not_hide_an_honest_server(
    served: Store, server: ArtifactServer, fetcher: Fetcher, hostile: Callable[..., str]
) -> None:
    served.put_blob(PAYLOAD)
    liar = hostile(lambda c: c.sendall(head(5) + b"wrong"))
    assert Served(fetcher, ["ftp://nowhere", liar, server.uri]).blob(WANTED) == PAYLOAD


def drip(connection: socket.socket) -> None:
    connection.sendall(head(len(PAYLOAD)))
    drop_by_drop(connection, PAYLOAD)


def drip_head(connection: socket.socket) -> None:
    start, end = head(len(PAYLOAD))[:-4], head(len(PAYLOAD))[-4:]
    drop_by_drop(connection, start + b"\r\nX: " + b"x" * 2000 + end + PAYLOAD)


def drop_by_drop(connection: socket.socket, data: bytes) -> None:
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(0.2)


def endless(connection: socket.socket) -> None:
    connection.sendall(head(None))
    while True:
        connection.sendall(b"\0" * 65536)


LIES: dict[str, tuple[Callable[[socket.socket], None], type[Exception]]] = {
    "wrong bytes": (lambda c: c.sendall(head(len(PAYLOAD)) + PAYLOAD[:-1] + b"!"), Corrupt),
    "short but consistent": (lambda c: c.sendall(head(10) + PAYLOAD[:10]), Corrupt),
    "announced too large": (lambda c: c.sendall(head(1 << 40) + PAYLOAD), Corrupt),
    "length with a million digits": (lambda c: c.sendall(head(int("9" * 4000))), Unavailable),
    "endless": (endless, Corrupt),
    "compressed": (
        lambda c: c.sendall(head(20, "200 OK", "Content-Encoding: gzip") + b"\x1f\x8b" * 10),
        Corrupt,
    ),
    "truncated": (lambda c: c.sendall(head(len(PAYLOAD)) + PAYLOAD[:100]), Unavailable),
    "closed at once": (lambda _: None, Unavailable),
    "not http": (lambda c: c.sendall(b"\xff" * 100), Unavailable),
    "error": (lambda c: c.sendall(head(0, "500 Internal Server Error")), Unavailable),
}
STALLS: dict[str, Callable[[socket.socket], object]] = {
    "silent": lambda connection: [*iter(lambda: connection.recv(4096), b"")],
    "dripping": drip,
    "dripping head": drip_head,
}


@pytest.mark.parametrize("lie", LIES)
def test_hostile_answer_is_refused_and_leaves_nothing(
    lie: str, mine: Store, fetcher: Fetcher, hostile: Callable[..., str]
) -> None:
    answer, error = LIES[lie]
    with pytest.raises(error) as caught:
        Served(fetcher, [hostile(answer)]).blob(WANTED, len(PAYLOAD))
    assert isinstance(caught.value, Corrupt) == (error is Corrupt)
    assert [path for path in mine.root.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("stall", STALLS)
def test_a_server_that_stalls_is_left(
    stall: str, mine: Store, impatient: Fetcher, hostile: Callable[..., str]
) -> None:
    """It would take minutes; a server that drips would even send the right bytes in the end."""
    with pytest.raises(Unavailable, match=r"\d+ bytes came in \d|Timeout"):
        Served(impatient, [hostile(STALLS[stall])]).blob(WANTED, len(PAYLOAD))
    assert [path for path in mine.root.rglob("*") if path.is_file()] == []


def test_redirects_are_not_followed(
    served: Store, server: ArtifactServer, fetcher: Fetcher, hostile: Callable[..., str]
) -> None:
    served.put_blob(PAYLOAD)
    target = f"Location: {server.uri}/v1/blob/{WANTED.hex()}"
    with pytest.raises(Unavailable, match="302"):
        Served(fetcher, [hostile(lambda c: c.sendall(head(0, "302 Found", target)))]).blob(WANTED)


def test_passing_failure_is_retried(fetcher: Fetcher, hostile: Callable[..., str]) -> None:
    seen: list[int] = []

    def answer(connection: socket.socket) -> None:
        seen.append(1)
        if len(seen) > 1:
            connection.sendall(head(len(PAYLOAD)) + PAYLOAD)

    assert Served(fetcher, [hostile(answer)]).blob(WANTED) == PAYLOAD


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "file:///etc/passwd",
        "ftp://host",
        "http://",
        "http:///v1",
        "http://user:pw@host",
        "http://host?x=1",
        "http://host#x",
        "http://host:99999",
        "http://host:0",
        "http://ho st",
        "http://host\\evil",
        "http://h\u00f6st",
        "http://host\n",
        "http://" + "a" * 520,
    ],
)
def test_only_plain_addresses_are_fetched_from(uri: str, fetcher: Fetcher) -> None:
    with pytest.raises(InvalidInput):
        check_uri(uri)
    with pytest.raises(Unavailable):
        Served(fetcher, [uri]).blob(WANTED)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/blob/..%2f..%2f..%2fetc%2fpasswd",
        "/v1/blob/../../etc/passwd",
        "/v1/blob/" + "0" * 63,
        "/v1/blob/" + "A" * 64,
        "/v1/blob/" + "0" * 62 + "%2e%2e",
        "/v1/blob/%00" + "0" * 63,
        "/v1/tree/..%2f/" + "0" * 64,
        "/v1/tree/01/" + "0" * 64,
        "/v1/tree/15/" + "0" * 64 + "?count=-1",
        "/v1/tree/15/" + "0" * 64 + "?count=99999999999999999999999",
        "/v1/tree/15/*",
        "/incoming/x",
        "/docs",
        "/openapi.json",
    ],
)
def test_server_serves_names_only(server: ArtifactServer, path: str) -> None:
    request = b"GET " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        status = connection.recv(12)
    assert status in (b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 422")


def test_health_readiness_and_metrics(served: Store) -> None:
    problems = Problems()
    registry = CollectorRegistry()
    Counter("assay_test", "a counter", registry=registry).inc()
    with ArtifactServer(served, problems=problems, registry=registry) as server:
        assert httpx.get(server.uri + "/healthz").json() == {"status": "alive"}
        assert httpx.get(server.uri + "/readyz").json() == {"ready": True, "reasons": [], "notices": []}
        problems.note("job 7: package", "nobody serves it")
        assert httpx.get(server.uri + "/readyz").json()["notices"] == ["job 7: package: nobody serves it"]
        problems["rpc"] = "no answer"
        answer = httpx.get(server.uri + "/readyz")
        assert answer.status_code == 503
        assert answer.json()["reasons"] == ["rpc: no answer"]
        assert "assay_test_total 1.0" in httpx.get(server.uri + "/metrics").text


def test_port_in_use_is_said_clearly(served: Store, server: ArtifactServer) -> None:
    with pytest.raises(ConfigError, match="another host or port"):
        ArtifactServer(served, port=server.port).start()


def test_server_stops(served: Store) -> None:
    server = ArtifactServer(served).start()
    port = server.port
    server.stop()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")
