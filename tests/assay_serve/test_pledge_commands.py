"""`assay pledge` from deploying the contract to reclaiming the ether, on a chain; and `assay serve` with a pledge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from eth_account import Account

from assay_serve.answer import Answer
from assay_serve.backed import Backed, Backing
from assay_serve.cli import Key, Pledged
from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model
from assay_serve.pledges import Pledges
from assay_serve.receipt import Receipt, Signed
from assay_serve.replay import Replayer, Verdict
from assay_serve.store import Receipts
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.chain import ChainClient, Deployment, TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.remembered import Remembered
from trainer_node.operate.deploy import deploy
from trainer_node.roles import challenger, pursuer
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import Settings
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..conftest import Anvil, Assay
from . import tiny
from .pledged import ETHER, SECONDS, Ground, answered, lying, one_wrong, run_of
from .pledged import PARAMETERS as DRAWN
from .test_pledges import PARAMETERS
from .test_pledges import ground as _ground
from .test_receipt import changed_payload

ground = _ground
PASSWORD = "pledge"
MADE = ("--signer", "0x" + "22" * 20, "--forfeit", 1, "--charge", 0, "--notice", 9)
PERIODS = ("train", "reveal", "challenge", "clock", "verdict", "appeal")


def test_the_commands_pledge_challenge_and_decide(
    assay: Assay, anvil: Anvil, tmp_path: Path, folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    web3 = connect(anvil.url, anvil.chain_id)
    sender = TransactionManager(
        web3,
        Account.from_key(anvil.keys[0]),
        Database(None),
        chain_id=anvil.chain_id,
        decode=error_decoder(),
        poll_s=0.01,
    )
    path = tmp_path / "deployment.json"
    deploy(web3, sender, path, PARAMETERS, chain_id=anvil.chain_id)
    client = ChainClient(web3, Deployment.load(path))
    monkeypatch.setenv("ASSAY_PASSWORD", PASSWORD)
    chain = (
        "--rpc-url",
        anvil.url,
        "--chain-id",
        anvil.chain_id,
        "--deployment",
        path,
        "--log-level",
        "error",
    )

    def flags(name: str, number: int) -> tuple[object, ...]:
        home = tmp_path / name
        create_key(home / "key.json", PASSWORD, key=anvil.keys[number], work_factor=2)
        return (*chain, "--data-dir", home)

    server, user = flags("server", 1), flags("user", 2)
    owner = Account.from_key(anvil.keys[1]).address
    code, told, _ = assay("pledge", "deploy", *server)
    assert code == 0
    contract = told.split("Pledges at ")[1][:42]
    ground = Ground(web3, client, Pledges(client, contract), ETHER)

    periods = [word for name in PERIODS for word in (f"--{name}", "600")]
    make = ("pledge", "make", contract, "1", "--signer", tiny.ACCOUNT.address, "--forfeit", "0.5")
    rest = ("--charge", "0.025", "--notice", SECONDS)
    code, _, said = assay(*make, *rest, *periods, "--clock", "1", *server)
    assert (code != 0, "BadPeriod" in said) == (True, True), "no challenge could post such a job"
    code, told, _ = assay(*make, *rest, *periods, *server)
    assert (code, "pledge: done" in told) == (0, True)

    backing = Backing(anvil.chain_id, contract, owner, SECONDS // 2)
    signed = answered(model, backing, ground.now)
    wrong = lying(model, backing, signed, one_wrong(signed))
    right_file, wrong_file = tmp_path / "right.json", tmp_path / "wrong.json"
    right_file.write_bytes(signed.to_bytes())
    wrong_file.write_bytes(wrong.to_bytes())
    plain = tmp_path / "plain.json"
    fields = signed.receipt.model_dump()
    plain.write_bytes(Signed.by(tiny.ACCOUNT, fields, signed.lists).to_bytes())
    code, told, _ = assay("receipt", "show", wrong_file)
    assert (code, f"of {owner} at {contract} on chain 31337" in told) == (0, True)
    code, told, _ = assay("pledge", "check", wrong_file, *chain)
    assert (code, "lacks" in told, "1 ether" in told) == (0, False, True)

    code, _, said = assay("pledge", "challenge", right_file, "--model", folder, "--port", 0, *user)
    assert (code != 0, "set --public-uri" in said) == (True, True)
    code, _, said = assay("pledge", "challenge", right_file, "--model", folder, "--port", 8750, *user)
    assert (code != 0, "its tokens are those of the model" in said) == (True, True)
    bogus = tmp_path / "bogus.json"
    bogus.write_bytes(with_file(wrong, "00" * 32).to_bytes())
    code, _, said = assay("pledge", "challenge", bogus, "--model", folder, "--port", 8750, *user)
    assert (code != 0, "a run of another model" in said) == (True, True), "nobody has that program file"
    many = ("--least", 2)
    code, _, said = assay("pledge", "challenge", wrong_file, "--model", folder, "--port", 8750, *many, *user)
    assert (code != 0, "1 ether are free, less than 2 ether" in said) == (True, True)
    poor = [Account.from_key(anvil.keys[2]).address, hex(ETHER)]
    web3.provider.make_request("anvil_setBalance", poor)  # type: ignore[arg-type]
    code, _, said = assay("pledge", "challenge", wrong_file, "--model", folder, "--port", 8750, *user)
    assert (code != 0, "and the account has 1 ether" in said) == (True, True), "its node would not claim"
    web3.provider.make_request("anvil_setBalance", [poor[0], hex(100 * ETHER)])  # type: ignore[arg-type]
    code, told, said = assay("pledge", "challenge", wrong_file, "--model", folder, "--port", 8750, *user)
    assert (code, "challenge 0, job 1" in told) == (0, True), said
    told_before = told
    code, told, _ = assay("pledge", "show", contract, owner, *chain)
    assert (code, wrong.receipt.id in told, "1, 1 open" in told) == (0, True, True)
    held = Store(tmp_path / "user" / "artifacts").holders
    assert f"assay pledge pursue {wrong_file} 1" in told_before
    begun: list[Callable[[object], bool]] = []
    monkeypatch.setattr(pursuer, "run", lambda _settings, chosen, first: begun.extend([chosen] * first))
    other_file = tmp_path / "other.json"
    other_file.write_bytes(answered(model, backing, ground.now, "another prompt").to_bytes())
    code, _, said = assay("pledge", "pursue", other_file, 1, *user)
    assert (code != 0, "is not of a challenge of this receipt" in said) == (True, True)
    for number, why in (
        (99, "there is no job 99"),
        (0, "greater than or equal to 1"),
        (1 << 64, "less than or equal to"),
    ):
        code, _, said = assay("pledge", "pursue", wrong_file, number, *user)
        assert (code, why in said) == (2, True), said
    for owner_ in ("foo", "0x" + "zz" * 20, "0x11"):
        code, _, said = assay("pledge", "show", contract, owner_, *chain)
        assert (code, "Traceback" in said) == (2, False), said
    code, _, said = assay("pledge", "pursue", wrong_file, 1, *user)
    assert (code, len(begun)) == (0, 1), said
    job = client.snapshot().job(1)
    assert begun[0](job)
    assert not begun[0](dataclasses.replace(job, id=2)), "a job of the same program takes nothing of it"
    assert not begun[0](dataclasses.replace(job, client=owner))
    assert len(list(held.held(1))) > 1, "it stays until the job is over"

    code, _, said = assay("pledge", "challenge", wrong_file, "--model", folder, "--port", 8750, *user)
    assert (code != 0, "job 1 is of an open challenge by this account" in said) == (True, True)
    code, _, said = assay("pledge", "decide", wrong_file, "--model", folder, *user)
    assert (code != 0, "is in the phase training" in said) == (True, True)
    ground.accept(run_of(model, signed), 1)
    code, _, said = assay("pledge", "decide", right_file, "--model", folder, *user)
    assert (code != 0, "of another receipt" in said) == (True, True)
    code, told, _ = assay("pledge", "decide", wrong_file, "--model", folder, *user)
    assert (code, "the receipt is wrong" in told) == (0, True)
    code, told, _ = assay("pledge", "check", wrong_file, *chain)
    assert (code, "shown wrong already" in told) == (1, True)
    before = web3.eth.get_balance(Account.from_key(anvil.keys[2]).address)
    code, _, _ = assay("pledge", "withdraw", contract, *user)
    assert code == 0
    assert web3.eth.get_balance(Account.from_key(anvil.keys[2]).address) - before > ETHER // 5

    code, told, _ = assay("pledge", "notice", contract, *server)
    assert (code, "it leaves at" in told) == (0, True)
    ground.skip(SECONDS // 2 + 1)
    code, told, _ = assay("pledge", "check", right_file, *chain)
    assert (code, "it could be challenged until" in told) == (1, True)
    ground.skip(SECONDS // 2)
    code, told, _ = assay("pledge", "reclaim", contract, *server)
    assert (code, "reclaimed" in told) == (0, True)
    code, _, said = assay("pledge", "check", plain, *chain)
    assert (code != 0, "has no pledge behind it" in said) == (True, True)


def with_file(signed: Signed, file: str) -> Signed:
    """Return a receipt whose server has signed for another program file."""

    def back(receipt: Receipt) -> Backed:
        assert signed.backed is not None
        return signed.backed.model_copy(update={"answer": receipt.id, "file": file})

    return Signed.by(tiny.ACCOUNT, signed.receipt.model_dump(), signed.lists, back)


def test_a_server_defends_its_receipts_and_nothing_else(
    assay: Assay,
    ground: Ground,
    module_anvil: Anvil,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, _, _ = ground.pledged()
    begun: list[tuple[Settings, Callable[..., object]]] = []
    monkeypatch.setattr(challenger, "run", lambda settings, *, chosen: begun.append((settings, chosen)))
    path = tmp_path / "deployment.json"
    ground.client.deployment.save(path)
    chain = (
        "--chain-id",
        ground.client.deployment.chain_id,
        "--rpc-url",
        module_anvil.url,
        "--deployment",
        path,
    )
    rest = ("--model", folder, "--receipts", tmp_path, *chain)
    code, _, said = assay("pledge", "defend", ground.pledges.address, owner.address, *rest)
    assert code == 0, said
    ((settings, chosen),) = begun
    assert settings.mode is Mode.CHALLENGE
    node = SimpleNamespace(remembered=Remembered())
    assert chosen(node)(SimpleNamespace(client=owner.address)) is False  # type: ignore[operator]
    code, _, said = assay("pledge", "defend", ground.pledges.address, Account.create().address, *rest)
    assert (code != 0, "has pledged nothing" in said, len(begun)) == (True, True, 1)


def test_a_receipt_is_behind_its_own_tokens_and_answer(model: Model) -> None:
    nobody = tiny.ACCOUNT.address
    signed = answered(model, Backing(1, nobody, nobody, 9), 1_700_000_000)
    assert Signed.from_bytes(signed.to_bytes()) == signed

    def changed(name: str, value: object) -> bytes:
        return changed_payload(signed, lambda predicate: predicate["backed"].update({name: value}))

    for name, value in (
        *(("answer", "00" * 32), ("written", "00" * 32), ("until", 5), ("chain", 2), ("program", "00" * 32)),
        *(("owner", "0x" + "11" * 20), ("file", "00" * 32)),
    ):
        with pytest.raises(InvalidEncoding):
            Signed.from_bytes(changed(name, value))


def test_a_pledge_behind_another_run_is_found(model: Model) -> None:
    """The attack: the program that is signed for the chain has other weights, or another prompt: no root of it is that
    of this answer, and no challenge could be won."""
    nobody = tiny.ACCOUNT.address
    signed = answered(model, Backing(1, nobody, nobody, 9), 1_700_000_000)
    other = answered(model, Backing(1, nobody, nobody, 9), 1_700_000_000, "another prompt")
    replayer = Replayer(model)
    assert replayer.check(signed, [1]).verdict is Verdict.MATCH
    for name in ("program", "file"):

        def back(receipt: Receipt, name: str = name) -> Backed:
            assert signed.backed is not None
            assert other.backed is not None
            changed = {"answer": receipt.id, name: getattr(other.backed, name)}
            return signed.backed.model_copy(update=changed)

        told = Signed.by(tiny.ACCOUNT, signed.receipt.model_dump(), signed.lists, back)
        found = replayer.check(Signed.from_bytes(told.to_bytes()), [1])
        assert (found.verdict, "behind another run" in found.reason) == (Verdict.DIFFERS, True)


def test_a_server_keeps_what_it_may_have_to_answer_for(model: Model, tmp_path: Path) -> None:
    nobody = tiny.ACCOUNT.address
    backing = Backing(1, nobody, nobody, 9)
    receipts = Receipts(model, tiny.ACCOUNT, count=1, backing=backing, folder=tmp_path)
    names = []
    for text in ("a", "b"):
        prompt = tuple(model.prompt_of_messages([{"role": "user", "content": text}]))
        answer = Answer(model, prompt, DRAWN, 2, (), frozenset(), lambda _: None)
        engine = Engine(model, Capacity(rows=1, chunk=8))
        engine.submit([answer])
        while answer.end is None:
            engine.turn()
        names.append(receipts.make(answer))
    assert receipts.get(names[0]) is None, "the newest have taken its place"
    for name in names:
        found = Signed.from_bytes((tmp_path / f"{name}.json").read_bytes())
        assert found.backed is not None
        assert (found.backed.answer, found.backed.until) == (name, found.receipt.time + 9)


def test_a_pledge_is_given_whole_or_not_at_all(tmp_path: Path) -> None:
    address, none = tiny.ACCOUNT.address, (None,) * 4
    key = Key(tmp_path / "key.json", None)
    assert Pledged(None, *none).backing(key) is None
    whole = Pledged(address, address, 1, 60, tmp_path / "kept")
    assert whole.backing(key) == Backing(1, address, address, 60)
    for lacking, own in (
        (Pledged(address, *none), key),
        (Pledged(None, address, None, None, None), key),
        (dataclasses.replace(whole, keep=None), key),
        (dataclasses.replace(whole, pledge=address.lower()), key),
        (whole, Key(None, None)),
    ):
        with pytest.raises(InvalidInput):
            lacking.backing(own)


@pytest.mark.parametrize(
    "command",
    [
        ("deploy",),
        ("make", "0x" + "11" * 20, "1", *map(str, MADE)),
        ("check", "receipt.json"),
        ("challenge", "receipt.json", "--model", "model"),
    ],
)
def test_nothing_is_pledged_on_a_chain_whose_ether_matters(assay: Assay, command: tuple[str, ...]) -> None:
    """No campaign plays the contract: docs/security.md, section 7."""
    code, _, errors = assay("pledge", *command, "--chain-id", "11155111", "--rpc-url", "http://127.0.0.1:9")
    assert code == 2
    assert "local chains" in errors
