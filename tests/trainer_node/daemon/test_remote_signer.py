"""A key that is elsewhere: the same bytes as with a key here, and no signature that was not asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from referee_py.attestation import Verdict, recover, sign
from trainer_node.chain import Call, TransactionManager, connect
from trainer_node.daemon.keys import hold_account
from trainer_node.daemon.remote_signer import MAX_ANSWER_BYTES, RemoteAccount
from trainer_node.daemon.service import open_daemon
from trainer_node.errors import AlreadyRunning, ConfigError, KeystoreError, SignerUnavailable
from trainer_node.play.salts import Salts
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database

from ..chain.test_client import Town
from .web3signer import Answer, Web3Signer

KEY, OTHER = b"\x05" * 32, b"\x06" * 32
LOCAL = Account.from_key(KEY)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
TRANSACTION: dict[str, Any] = {
    "type": 2,
    "chainId": 31337,
    "nonce": 7,
    "value": 10**18,
    "data": b"\x01\x02" * 300,
    "gas": 21_000,
    "maxFeePerGas": 3 * 10**9,
    "maxPriorityFeePerGas": 10**9,
    "to": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
}


@pytest.fixture
def signer() -> Iterator[Web3Signer]:
    with Web3Signer(OTHER, KEY) as signer:
        yield signer


class Listener:
    """Hears whether the signer signs."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []

    def __call__(self, reason: str | None) -> None:
        self.heard.append(reason)


def account(signer: Web3Signer, tell: Listener | None = None) -> RemoteAccount:
    return RemoteAccount(signer.uri + "/", LOCAL.address.lower(), timeout_s=60.0, tell=tell or Listener())


# ------------------------------------------------------------------ what it signs


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"to": None},
        {"value": 0, "data": b"", "nonce": 0},
        {"chainId": 1, "nonce": 1 << 40, "value": (1 << 128) - 1, "maxFeePerGas": 1 << 60},
    ],
)
def test_transactions_are_those_of_a_key_here(signer: Web3Signer, changes: dict[str, Any]) -> None:
    fields = {name: value for name, value in (TRANSACTION | changes).items() if value is not None}
    got, want = account(signer).sign_transaction(fields), LOCAL.sign_transaction(fields)
    assert (got.raw_transaction, got.hash, got.r, got.s, got.v) == (
        want.raw_transaction,
        want.hash,
        want.r,
        want.s,
        want.v,
    )
    assert Account.recover_transaction(got.raw_transaction) == LOCAL.address


def test_a_field_that_would_not_be_signed_is_an_error(signer: Web3Signer) -> None:
    with pytest.raises(AssertionError, match="accessList"):
        account(signer).sign_transaction(TRANSACTION | {"accessList": [{}]})
    assert signer.signed == []


def test_verdicts_are_those_of_a_key_here(signer: Web3Signer) -> None:
    verdict, panel = Verdict(5, 171, 23, b"\x07" * 32), "0x" + "ab" * 20
    got = sign(verdict, 31337, panel, account(signer))
    assert got == sign(verdict, 31337, panel, LOCAL)
    assert recover(verdict, 31337, panel, got) == LOCAL.address


def test_salts_are_those_of_a_key_here_and_outlive_a_signer_that_never_signs_twice_the_same(
    signer: Web3Signer,
) -> None:
    where = 31337, "0x" + "ab" * 20, 7
    database = Database(None)
    salts = Salts(account(signer), database)
    assert salts.of(*where) == Salts(LOCAL, Database(None)).of(*where)
    asked = len(signer.signed)
    signer.lie = lambda _: (500, b"hardware is away")
    assert Salts(account(signer), database).of(*where) == salts.of(*where)
    assert len(signer.signed) == asked


def test_no_salt_that_is_shown_tells_another_or_what_is_drawn(signer: Web3Signer) -> None:
    """The salt of a claim or of a refutation is on the chain once it is revealed; draws and other refutations go on."""
    where, salts = (31337, "0x" + "ab" * 20, 7), Salts(account(signer), Database(None))
    roots = bytes(32), b"\x01" * 32
    shown = [
        salts.of(*where),
        *(salts.of_refutation(*where, against, root) for against in roots for root in roots),
    ]
    assert len({salts.secret(*where), *shown}) == 6
    assert salts.of_refutation(*where, *roots) == Salts(LOCAL, Database(None)).of_refutation(*where, *roots)


def test_a_bare_hash_is_not_signed(signer: Web3Signer) -> None:
    with pytest.raises(KeystoreError, match="use a keystore"):
        account(signer).unsafe_sign_hash(bytes(32))


# ------------------------------------------------------------------ what it may answer


def _high(answer: Answer) -> Answer:
    """The other signature of the same key and data, which contracts refuse."""
    own = bytes.fromhex(answer[1].decode()[2:])
    s = ORDER - int.from_bytes(own[32:64], "big")
    return 200, b"0x" + (own[:32] + s.to_bytes(32, "big") + bytes([55 - own[64]])).hex().encode()


def _other_key(answer: Answer) -> Answer:
    return 200, bytes(Account.from_key(OTHER).sign_message(encode_defunct(text="x")).signature).hex().encode()


LIES: dict[str, tuple[Callable[[Answer], Answer], str]] = {
    "another key, other data": (_other_key, "signed with the key of"),
    "high s": (_high, "not canonical"),
    "too short": (lambda a: (200, a[1][:-2]), "no signature of 65 bytes"),
    "too long": (lambda a: (200, a[1] + b"00"), "no signature of 65 bytes"),
    "empty": (lambda _: (200, b""), "no signature of 65 bytes"),
    "no digits": (lambda _: (200, b"0x" + b"zz" * 65), "no signature of 65 bytes"),
    "zeros": (lambda _: (200, b"00" * 65), "signature"),
    "spaces between": (lambda a: (200, a[1].replace(b"0", b" 0")), "no signature of 65 bytes"),
    "an odd v": (lambda a: (200, a[1][:-2] + b"ff"), "not canonical"),
    "no text": (lambda _: (200, bytes(range(128, 256))), "does not answer"),
    "a gigabyte": (lambda _: (200, b"0" * (MAX_ANSWER_BYTES + 1)), "is it a signer"),
    "an error": (lambda _: (500, b"vault sealed"), "answers 500.*vault sealed"),
    "a redirect": (lambda _: (302, b""), "answers 302"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_signature_of_ours_is_not_used(lie: str, signer: Web3Signer) -> None:
    signer.lie, words = LIES[lie]
    listener = Listener()
    with pytest.raises(SignerUnavailable, match=words):
        account(signer, listener).sign_transaction(TRANSACTION)
    assert listener.heard[-1] is not None
    signer.lie = lambda answer: answer
    account(signer, listener).sign_transaction(TRANSACTION)
    assert listener.heard[-1] is None


@pytest.mark.parametrize("form", [lambda text: b'"' + text + b'"\n', lambda text: text[2:]])
def test_the_forms_that_signers_are_known_for_are_read(
    form: Callable[[bytes], bytes], signer: Web3Signer
) -> None:
    signer.lie = lambda answer: (200, form(answer[1]))
    want = LOCAL.sign_transaction(TRANSACTION)
    assert account(signer).sign_transaction(TRANSACTION).raw_transaction == want.raw_transaction
    signer.lie = lambda answer: (200, answer[1][:-2] + b"%02x" % (int(answer[1][-2:], 16) - 27))
    assert account(signer).sign_transaction(TRANSACTION).raw_transaction == want.raw_transaction


@pytest.mark.parametrize(
    "keys", [[], ["0x12"], [7, None, {"a": 1}], ["0x" + "00" * 64], {"0x" + "11" * 64: 1}]
)
def test_a_signer_without_our_key_is_said(keys: Any, signer: Web3Signer) -> None:
    signer.keys = keys
    with pytest.raises(KeystoreError, match=f"no key of {LOCAL.address}; check signer_address"):
        account(signer).look()


def test_a_signer_that_is_down_is_said_and_found_again(signer: Web3Signer) -> None:
    listener = Listener()
    gone = RemoteAccount("http://127.0.0.1:9", LOCAL.address, tell=listener)
    gone.look()
    with pytest.raises(SignerUnavailable, match="does not answer: ConnectError"):
        gone.sign_message(encode_defunct(text="x"))
    assert len(listener.heard) == 2
    assert None not in listener.heard


# ------------------------------------------------------------------ in a node


def test_settings_go_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="signer_url and signer_address go together"):
        load_settings(signer_url="http://127.0.0.1:9000")
    with pytest.raises(ConfigError, match="no user"):
        load_settings(signer_url="http://me:secret@127.0.0.1", signer_address=LOCAL.address)


def test_one_process_for_each_key(signer: Web3Signer, tmp_path: Path) -> None:
    settings = [
        load_settings(data_dir=tmp_path / name, signer_url=signer.uri, signer_address=LOCAL.address)
        for name in ("one", "two")
    ]
    with hold_account(settings[0]) as held:
        assert held.address == LOCAL.address
        second = hold_account(settings[1])
        with pytest.raises(AlreadyRunning, match=LOCAL.address):
            second.__enter__()
    with hold_account(settings[1]):
        pass


def test_a_transaction_without_a_signature_leaves_nothing_behind(
    anvil: Any, signer: Web3Signer, tmp_path: Path
) -> None:
    with Web3Signer(anvil.keys[0]) as signer:
        address = Account.from_key(anvil.keys[0]).address
        database = Database(None)
        manager = TransactionManager(
            connect(anvil.url, anvil.chain_id),
            RemoteAccount(signer.uri, address),
            database,
            chain_id=anvil.chain_id,
            poll_s=0.01,
        )
        signer.lie = lambda _: (503, b"sealed")
        call = Call("pay", LOCAL.address, b"", 5)
        with pytest.raises(SignerUnavailable):
            manager.send(call)
        assert manager.open() == []
        signer.lie = lambda answer: answer
        assert manager.send(call).gas_used == 21_000
        assert len(signer.signed) == 2


def test_a_daemon_says_that_its_signer_is_away_and_goes_on_when_it_is_back(
    anvil: Any, tmp_path: Path
) -> None:
    """With the contracts on a real chain; only the key is elsewhere."""
    Town(anvil.url, anvil.keys[:4], tmp_path)
    with Web3Signer(anvil.keys[4]) as signer:
        settings = load_settings(
            rpc_url=anvil.url,
            chain_id=anvil.chain_id,
            deployment=tmp_path / "31337.json",
            data_dir=tmp_path / "node",
            signer_url=signer.uri,
            signer_address=Account.from_key(anvil.keys[4]).address,
            log_level="error",
        )
        with open_daemon(settings, "trainer") as node:
            assert node.transactions is not None
            assert httpx.get(f"{node.server.uri}/readyz").json()["ready"]
            signer.lie, keys, signer.keys = (lambda _: (500, b"")), signer.keys, []
            with pytest.raises(SignerUnavailable):
                node.transactions.send(Call("pay", LOCAL.address, b"", 5))
            reasons = httpx.get(f"{node.server.uri}/readyz").json()["reasons"]
            assert [reason for reason in reasons if reason.startswith("signer: ") and signer.uri in reason]
            assert (node.metrics.value("signer_up"), node.metrics.value("failures", "signer")) == (0, 1)
            node.look_at_signer()
            assert "has no key" in node.problems.shown().reasons[0]
            signer.keys = keys
            node.look_at_signer()
            assert "signer" not in node.problems
            assert node.metrics.value("signer_up") == 1
