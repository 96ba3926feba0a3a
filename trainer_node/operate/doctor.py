"""Checks of a machine that is to run a daemon. Each gives one line: what was found, and what to do about it.

The checks change nothing but a file that is served for a moment, in a folder that is removed again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from web3 import Web3

from referee_py.errors import AssayError

from ..chain import ChainClient
from ..chain.abi import Build
from ..chain.contracts import needs_of
from ..chain.endpoints import Endpoints, endpoints_of
from ..chain.fees import ETHER, GWEI
from ..chain.fitness import check_chain
from ..chain.rpc import guarded
from ..daemon.access import open_client, open_web3
from ..daemon.keys import load_account, no_key, read_address
from ..errors import AlreadyRunning
from ..network.artifact_server import ArtifactServer
from ..observe.findings import Finding, State
from ..settings.settings import Settings
from ..stake.min_stake import chain_price, schedule_of, worst_gas
from ..storage.process import exclusive
from ..storage.store import Store
from ..workers.launch import check_torch

GIB = 1 << 30
LOW_DISK, LEAST_DISK = 10 * GIB, GIB // 4
OUTSIDE_S = 10.0
_PROBE_BYTES = 64


def examine(settings: Settings, *, key: bool = True) -> Iterator[Finding]:
    """Yield the findings, one after the other. ``key``: open the key file too, which takes a second."""
    yield from _guard("kernels", _kernels)
    yield from _guard("device", lambda: _device(settings))
    yield from _guard("workers", lambda: _workers(settings))
    yield from _guard("disk", lambda: _disk(settings))
    yield from _guard("database", lambda: _database(settings))
    yield from _guard("key", lambda: _key(settings, opens=key))
    chains: list[Web3] = []
    clients: list[ChainClient] = []
    yield from _on_the_chain(settings, chains, clients)
    if chains:
        yield from _guard("ether", lambda: _ether(settings, chains[0], clients[0] if clients else None))
    yield from _guard("public address", lambda: _outside(settings))


def examine_chain(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the chain of the settings, its endpoints and the contracts there."""
    yield from _on_the_chain(settings, [], [])


def _on_the_chain(settings: Settings, chains: list[Web3], clients: list[ChainClient]) -> Iterator[Finding]:
    """Add the connection to ``chains`` and a client of the deployment to ``clients``, as far as there are these."""
    yield from _guard("chain", lambda: _chain(settings, chains))
    if chains:
        yield from _guard("contracts", lambda: _contracts(settings, clients))
        yield from _guard("opcodes", lambda: _fitness(settings, chains[0], clients))


def _guard(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds; what it cannot do is a finding, too."""
    try:
        yield from check()
    except AssayError as error:
        yield Finding(name, State.FAIL, str(error), error.advice)  # or its message names it
    except Exception as error:  # NOTE: a check that breaks must not hide the others.
        yield Finding(name, State.FAIL, f"{type(error).__name__}: {error}", "run it again with --debug")


# ---------------------------------------------------------------------- this machine


def _kernels() -> Iterator[Finding]:
    import repops
    from repops import selftest
    from repops.host.library import BEST_ISA, ISA_NAMES

    want, differing = selftest.golden(), []
    for line in selftest.lines():
        if selftest.digest(repops.backend("cpu", line.sums), line.operator) != want.get(line.name):
            differing.append(line.name)
    text = f"{len(want)} operators give the bits of the specification, with {ISA_NAMES[BEST_ISA]}"
    if not differing:
        yield Finding("kernels", State.OK, text)
        return
    yield Finding(
        *("kernels", State.FAIL, f"other bits than specified: {', '.join(differing[:5])}"),
        "do not stake from this machine; try REPOPS_ISA=portable, and check its memory",
    )


def _device(settings: Settings) -> Iterator[Finding]:
    if settings.device == "cpu":
        yield Finding("device", State.OK, f"cpu, {settings.worker_threads} threads; no GPU is asked for")
        return
    from repops.cuda import require
    from repops.cuda.errors import CudaUnavailable

    try:
        require()
    except CudaUnavailable as error:
        yield Finding(
            "device",
            State.FAIL,
            f"cuda: {error}",
            "install the extra [cuda] and a driver, or set device = cpu",
        )
        return
    import torch

    yield Finding("device", State.OK, f"cuda: {torch.cuda.get_device_name()}")


def _workers(settings: Settings) -> Iterator[Finding]:
    if settings.workers == 1:
        return
    check_torch()
    count, threads, cores = settings.workers, settings.worker_threads, os.cpu_count() or 1
    text = f"{count} processes of {threads} threads for {cores} cores, each with 1/{count} of limits.memory_bytes"
    if settings.device == "cpu" and count * threads > cores:
        remedy = f"lower workers or threads to a product of {cores}: sharing a core is slower than one process alone"
        yield Finding("workers", State.WARN, text, remedy)
    else:
        yield Finding("workers", State.OK, text)


def _disk(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    found = shutil.disk_usage(folder)
    text = f"{found.free / GIB:.1f} GiB free of {found.total / GIB:.0f} at {settings.data_dir}"
    remedy = (
        "free some, or set data_dir to a larger disk: a checkpoint is a copy of model and optimizer state"
    )
    if found.free < LEAST_DISK:
        yield Finding("disk", State.FAIL, text, remedy)
    else:
        low = found.free < LOW_DISK
        yield Finding("disk", State.WARN if low else State.OK, text, remedy if low else "")


def _database(settings: Settings) -> Iterator[Finding]:
    path = settings.data_dir / "node.sqlite3"
    if not path.exists():
        yield Finding("database", State.OK, f"{path} does not exist yet")
        return
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
            (told,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        told = str(error)
    if told != "ok":
        yield Finding(
            *("database", State.FAIL, f"{path}: {told}"),
            "stop the daemon and move the file away: work is repeated, nothing else is lost",
        )
        return
    try:
        with exclusive(settings.data_dir / "lock", "the data directory"):
            used = "no daemon uses it now"
    except AlreadyRunning:
        used = "a daemon uses it now"
    yield Finding("database", State.OK, f"{path} is sound; {used}")


def _key(settings: Settings, *, opens: bool) -> Iterator[Finding]:
    path, lost = settings.keystore_path, settings.lost
    if not path.exists():
        where, (why, make) = "" if lost is None else f", and {lost.partition('; ')[0]}", no_key(settings)
        yield Finding(
            *("key", State.WARN, f"{why}{where}"),
            f"make one with {make}; only `assay challenger run --mode watch` and `assay monitor` need none",
        )
        return
    address = read_address(path)
    for name, file in (("key", path), ("password", settings.password_file)):
        if file is None or not file.exists():
            continue
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            yield Finding(
                name, State.FAIL, f"{file} has mode {mode:04o}: others can read it", f"chmod 600 {file}"
            )
    if opens:
        load_account(settings)
    text = f"{path} holds {address}" + (" and opens with the password" if opens else "")
    yield Finding("key", State.OK, text)


# ---------------------------------------------------------------------- the chain


def _chain(settings: Settings, chains: list[Web3]) -> Iterator[Finding]:
    web3 = open_web3(settings)
    with guarded("eth_getBlock"):
        head = web3.eth.get_block("latest")
        number = int(head["number"])
    chains.append(web3)
    yield Finding("chain", State.OK, f"id {settings.chain_id}, block {number}")
    if endpoints_of(web3).several:
        yield from _endpoints(settings, endpoints_of(web3))


def _endpoints(settings: Settings, endpoints: Endpoints) -> Iterator[Finding]:
    names, agree = len(endpoints.every), settings.view_policy.agree
    if silent := [endpoint.trouble for endpoint in endpoints.every if endpoint.trouble]:
        yield Finding(
            *("endpoints", State.WARN, f"{len(silent)} of {names} do not serve: {'; '.join(silent)}"),
            "mend them or take them out of rpc_url",
        )
    elif 2 * agree <= names:
        yield Finding(
            *(
                "endpoints",
                State.WARN,
                f"stakes need only {agree} of {names} endpoints: half of them may lie together",
            ),
            f"agree = {names // 2 + 1}, or leave it out",
        )
    else:
        yield Finding("endpoints", State.OK, f"{names} serve the chain; a stake needs {agree} of them")


def _contracts(settings: Settings, clients: list[ChainClient]) -> Iterator[Finding]:
    client = open_client(settings)
    clients.append(client)
    names, file = len(client.deployment.addresses), client.deployment.schedule
    yield Finding("contracts", State.OK, f"the code of {names} contracts is that of the deployment")
    counts_by = schedule_of(client.at_head().stake_gas)
    if file is not None and file is not counts_by:
        text = f"{settings.deployment_file} says that stakes count by {file.name}; they count by {counts_by.name}"
        yield Finding(
            "deployment", State.FAIL, text, "ask who deployed it for the file that was written then"
        )


def _fitness(settings: Settings, web3: Web3, clients: list[ChainClient]) -> Iterator[Finding]:
    """Try what the deployment needs of the chain; without one, what a standard deployment would."""
    deployed = clients[0].needs if clients else None
    stated = schedule_of(clients[0].at_head().stake_gas) if clients else None
    yield from check_chain(web3, deployed or needs_of(Build.STANDARD), settings.chain_rule, stated)


def _ether(settings: Settings, web3: Web3, client: ChainClient | None) -> Iterator[Finding]:
    if not settings.keystore_path.exists():
        return
    address = read_address(settings.keystore_path)
    with guarded("eth_getBalance"):
        have = int(web3.eth.get_balance(Web3.to_checksum_address(address)))
    price = chain_price(web3)
    if client is None:
        text = f"{address} has {have / ETHER:.6g} ether; what a job takes is not known without the contracts"
        yield Finding(
            "ether", State.OK if have else State.FAIL, text, "" if have else f"send ether to {address}"
        )
        return
    snapshot = client.snapshot()
    stake = snapshot.least_stake()
    need = 2 * stake + worst_gas(schedule_of(snapshot.stake_gas)) * price
    text = (
        f"{address} has {have / ETHER:.6g} ether; one job of the least stake takes up to {need / ETHER:.6g}: stake, "
        f"bond of an appeal, and the gas of the worst dispute at {price / GWEI:.3g} gwei"
    )
    if have >= need:
        yield Finding("ether", State.OK, text)
    else:
        state = State.FAIL if have < stake else State.WARN
        yield Finding("ether", state, text, f"send {(need - have) / ETHER:.6g} ether to {address}")


# ---------------------------------------------------------------------- seen from outside


def _outside(settings: Settings) -> Iterator[Finding]:
    """Fetch a file of ours over the address that others use.

    NOTE: the request starts on this machine. A router that sends it back inside can make it fail where others succeed,
    and a firewall of the provider may stop others where it succeeds.
    """
    if settings.public_uri is None:
        yield Finding(
            *(
                "public address",
                State.WARN,
                "public_uri is not set: others get an address of this machine only",
            ),
            "set public_uri, unless all parties run on this machine",
        )
        return
    data = secrets.token_bytes(_PROBE_BYTES)
    with tempfile.TemporaryDirectory(prefix="assay-doctor-") as folder:
        store = Store(Path(folder))
        name = store.put_blob(data)
        if settings.port and _taken(settings.host, settings.port):
            yield _daemon(settings)
            return
        with ArtifactServer(store, settings.host, settings.port) as server:
            yield _fetch(settings, f"/v1/blob/{name.hex()}", data, server.port)


def _taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _daemon(settings: Settings) -> Finding:
    """Ask the daemon that runs, over the public address, for what only an artifact server answers."""
    status, body = _get(f"{settings.public_uri}/v1/progress/0")
    if status == 404 and b"nothing is known about a run of job 0" in body:
        return Finding("public address", State.OK, f"the running daemon answers at {settings.public_uri}")
    return _unseen(settings, settings.port, f"HTTP {status}" if status else body.decode(errors="replace"))


def _fetch(settings: Settings, path: str, want: bytes, port: int) -> Finding:
    status, body = _get(f"{settings.public_uri}{path}")
    if (status, body) == (200, want):
        return Finding("public address", State.OK, f"a file of ours was fetched from {settings.public_uri}")
    other = "another file" if status == 200 else f"HTTP {status}" if status else body.decode(errors="replace")
    return _unseen(settings, port, other)


def _unseen(settings: Settings, port: int, why: str) -> Finding:
    text = (
        f"{settings.public_uri} does not lead to the artifact server at {settings.host}:{port}: {why[:200]}"
    )
    remedy = "open the port in the firewall, forward it, or let the reverse proxy pass /v1/"
    return Finding("public address", State.FAIL, text, remedy)


def _get(url: str) -> tuple[int, bytes]:
    """Return status and the beginning of an answer; (0, reason) if there is none. At most 4 KiB are read."""
    deadline, body = time.monotonic() + OUTSIDE_S, b""
    try:
        with (
            httpx.Client(timeout=OUTSIDE_S, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > 4096 or time.monotonic() > deadline:
                    break
            return response.status_code, body[:4096]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return 0, f"{type(error).__name__} {error}".encode()
