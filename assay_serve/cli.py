"""`assay serve`: a language model over HTTP, with a receipt for each answer."""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput
from trainer_node.cli.common import out
from trainer_node.cli.flags import flag, only_given, with_flags

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from .backed import Backing

DEFAULT_PORT = 8723
DAY_S = 86_400
MAX_KEYS = 10_000

KEY = {
    "keystore": flag(
        Path, "--keystore", "Sign receipts with this encrypted key of assay key new; else with a key of this process.",
        "Receipts",
    ),
    "password_file": flag(
        Path, "--password-file", "File with the keystore's password; or set ASSAY_PASSWORD.", "Receipts"
    ),
}  # fmt: skip
LIMITS = {
    "rows": flag(int, "--rows", "Answers that are computed at once: 8.", "Limits", min=1, max=256),
    "queue": flag(int, "--queue", "Answers that wait: 64.", "Limits", min=0, max=100_000),
    "max_tokens": flag(int, "--max-tokens", "Most tokens of an answer: 4096.", "Limits", min=1),
    "max_body": flag(int, "--max-body", "Most bytes of a request: 1048576.", "Limits", min=1),
    "seconds": flag(
        float, "--seconds", "Time of an answer; then it ends where it is: 600.", "Limits", min=0.001
    ),
}
PLEDGE = {
    "pledge": flag(str, "--pledge", "Contract of the pledge behind the receipts: assay pledge.", "Pledge"),
    "pledge_owner": flag(str, "--pledge-owner", "Account that has pledged.", "Pledge"),
    "pledge_chain": flag(int, "--pledge-chain", "Id of its chain: 31337.", "Pledge", min=1),
    "pledge_seconds": flag(
        int, "--pledge-seconds", "Seconds in which a receipt can be challenged: a day.", "Pledge", min=1
    ),
    "keep": flag(
        Path, "--keep", "Folder for the receipts: without them no challenge can be answered.", "Pledge"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Pledged:
    """The pledge behind the receipts."""

    pledge: str | None
    pledge_owner: str | None
    pledge_chain: int | None
    pledge_seconds: int | None
    keep: Path | None

    def backing(self, key: Key) -> Backing | None:
        """Return what is behind the receipts, or None. Raises InvalidInput where a part of it lacks."""
        from eth_utils.address import is_checksum_address

        from .backed import Backing

        if self.pledge is None:
            if self != Pledged(None, None, None, None, None):
                raise InvalidInput("a pledge has a contract; add --pledge CONTRACT, or leave the rest out")
            return None
        if self.pledge_owner is None or self.keep is None or key.keystore is None:
            raise InvalidInput(
                "receipts with a pledge need --pledge-owner ACCOUNT, --keystore KEY (the signer that it names), and "
                "--keep FOLDER, where receipts are kept until they are challenged"
            )
        for address in (self.pledge, self.pledge_owner):
            if not is_checksum_address(address):
                raise InvalidInput(
                    f"{address[:80]} is not an address with its checksum; copy the whole of it"
                )
        self.keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Backing(
            self.pledge_chain or 31337, self.pledge, self.pledge_owner, self.pledge_seconds or DAY_S
        )


@dataclass(frozen=True)
class Key:
    """The key of receipts."""

    keystore: Path | None
    password_file: Path | None

    def account(self) -> LocalAccount:
        """Open the key, or make one for this process."""
        from eth_account import Account

        from trainer_node.daemon.keys import load_account
        from trainer_node.settings.settings import load_settings

        if self.keystore is None:
            if self.password_file is not None:
                raise InvalidInput("--password-file opens a key for receipts; add --keystore KEY")
            made: LocalAccount = Account.create()
            return made
        return load_account(
            load_settings(**only_given(keystore=self.keystore, password_file=self.password_file))
        )


@with_flags("key", KEY, lambda **flags: Key(**flags))
@with_flags("limits", LIMITS, only_given)
@with_flags("pledged", PLEDGE, lambda **flags: Pledged(**flags))
def serve(
    key: Key,
    limits: dict[str, float],
    pledged: Pledged,
    model: Annotated[
        Path, typer.Argument(help="Folder of a causal language model, as save_pretrained writes it.")
    ],
    host: Annotated[str, typer.Option(help="Address that is listened at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any free one.", min=0, max=65535)] = DEFAULT_PORT,
    places: Annotated[
        int | None,
        typer.Option(
            help="Most tokens of a prompt and its answer together; the model's window if not given."
        ),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="File with API keys, one on each line; without it, everybody may ask.")
    ] = None,
) -> None:
    """Serve a language model in the schema of OpenAI's API, until told to stop.

    Each answer has a receipt: whoever has the model computes it again, bit for bit, with assay receipt verify.
    """
    import uvicorn

    from trainer_node.network.bounded_http import BACKLOG, BoundedHttp, allow_files

    from .engine import Capacity, Engine
    from .model import Model
    from .requests import Limits
    from .store import Receipts
    from .web import Service, create_app

    known, backing, account = _keys(keys), pledged.backing(key), key.account()
    usual = Capacity(), Limits()
    capacity = Capacity(
        rows=int(limits.get("rows", usual[0].rows)),
        waiting=int(limits.get("queue", usual[0].waiting)),
        seconds=limits.get("seconds", usual[0].seconds),
    )
    bounds = Limits(
        tokens=int(limits.get("max_tokens", usual[1].tokens)), body=int(limits.get("max_body", usual[1].body))
    )
    with _listening(host, port) as listening:
        found = Model.load(model, places)
        with Engine(found, capacity) as engine:
            receipts = Receipts(found, account, backing=backing, folder=pledged.keep)
            app = create_app(Service(engine, receipts, bounds, known))
            allow_files()
            shown = f"[{host}]" if ":" in host else host
            out.print(f"http://{shown}:{listening.getsockname()[1]}/v1", soft_wrap=True, markup=False)
            out.print(f"model {found.name}, root {found.identity.root.hex()}", soft_wrap=True, markup=False)
            behind = "no pledge is" if backing is None else f"the pledge of {backing.owner} is"
            out.print(f"receipts are signed by {account.address}; {behind} behind them", soft_wrap=True)
            config = uvicorn.Config(
                app,
                log_level="error",  # whatever strangers send is no warning
                access_log=False,
                lifespan="off",
                http=BoundedHttp,
                backlog=BACKLOG,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=5,
                server_header=False,
            )
            uvicorn.Server(config).run(sockets=[listening])


def _keys(path: Path | None) -> frozenset[bytes]:
    """Return the SHA-256 of the keys in a file. Raises InvalidInput."""
    if path is None:
        return frozenset()
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be read as API keys: {error}; write one key on each line"
        ) from error
    found = [line for line in lines if line]
    if not 0 < len(found) <= MAX_KEYS:
        raise InvalidInput(f"{path} has {len(found)} API keys; write 1 to {MAX_KEYS}, one on each line")
    return frozenset(hashlib.sha256(key.encode()).digest() for key in found)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise InvalidInput(f"{host}:{port} cannot be listened at: {error.strerror}; choose --port") from error
    with listening:
        yield listening
