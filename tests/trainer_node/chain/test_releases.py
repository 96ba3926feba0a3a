"""Releases on a real chain: a node uses the published one, and refuses withdrawn ones or code that is not its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from eth_account import Account

from tests.conftest import Anvil, undone
from trainer_node.chain import Deployment, TransactionManager, connect
from trainer_node.chain.abi import Build, load_artifact
from trainer_node.chain.contracts import NAMES, RULES, TABLES, error_decoder, needs_of
from trainer_node.chain.outbox import Call
from trainer_node.chain.releases import same_code
from trainer_node.daemon.access import open_client
from trainer_node.errors import ConfigError, DeployError, ReleaseRefused, Reverted, WrongChain
from trainer_node.operate.deploy import Parameters, creation_code, deploy, publish, refuse_unpublishable
from trainer_node.settings.settings import Settings
from trainer_node.storage.database import Database

PARAMETERS = Parameters(min_bond=10**17, leave_delay=60, stake_gas=10**7, min_period=2, commit_age=1)


class Publisher:
    """A deployment, and a list on which it is version 1.0."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        self.url = anvil.url
        self.web3 = connect(anvil.url, 31337)
        self.open_accounts(anvil)
        self.file = folder / "31337.json"
        self.deployment = deploy(self.web3, self.sender, self.file, PARAMETERS, chain_id=31337)
        self.releases = publish(self.sender, self.deployment, "1.0", None, self.web3)

    def open_accounts(self, anvil: Anvil) -> None:
        """Open the accounts, anew: they remember no transactions."""
        self.sender, self.stranger = (self.account(key) for key in anvil.keys[:2])

    def account(self, key: str) -> TransactionManager:
        return TransactionManager(
            connect(self.url, 31337),
            Account.from_key(key),
            Database(None),
            chain_id=31337,
            poll_s=0.02,
            decode=error_decoder(),
        )

    def settings(self, **changes: Any) -> Settings:
        values = {"rpc_url": self.url, "releases": self.releases.address, "release": "1.0", **changes}
        return Settings(**values)

    def listed(self, version: str, **others: str) -> Deployment:
        """Return a node's deployment for the same release with some other contracts."""
        addresses = {**self.deployment.addresses, **others}
        self.sender.send(self.releases.publish(version, self.deployment.block, addresses))
        return self.releases.deployment(version, 31337)

    def create(self, name: str, *arguments: object, build: Build = Build.STANDARD) -> str:
        code = creation_code(name, *arguments, build=build)
        receipt = self.sender.send(Call(f"deploy {name}", None, code))
        assert receipt.contract is not None
        return str(self.web3.to_checksum_address(receipt.contract))

    def rpc(self, method: str, *params: object) -> None:
        self.web3.provider.make_request(method, list(params))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def published(module_anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    return Publisher(module_anvil, tmp_path_factory.mktemp("publisher"))


@pytest.fixture
def publisher(module_anvil: Anvil, published: Publisher) -> Iterator[Publisher]:
    published.open_accounts(module_anvil)
    with undone(published.web3):
        yield published


def test_a_node_finds_its_contracts_by_a_version(publisher: Publisher) -> None:
    client = open_client(publisher.settings())
    found, deployed = client.deployment, publisher.deployment
    assert set(found.addresses) == set(NAMES) - {*RULES, "Opset1", "Examiner", "Judge", "Notary"}
    assert all(deployed.addresses[name] == address for name, address in found.addresses.items())
    assert all(deployed.code_hashes[name] == hashed for name, hashed in found.code_hashes.items())
    assert (found.chain_id, found.block) == (31337, deployed.block)
    assert client.needs == needs_of(Build.STANDARD)  # of the rules, too, which a release does not name
    assert client.snapshot().job_count() == 0


def test_a_list_and_a_version_go_together(publisher: Publisher) -> None:
    for changes in ({"release": None}, {"releases": None}):
        with pytest.raises(ConfigError, match="go together"):
            open_client(publisher.settings(**changes))
    with pytest.raises(ReleaseRefused, match=r"no release '2\.0'"):
        open_client(publisher.settings(release="2.0"))
    with pytest.raises(WrongChain, match="no list of releases"):
        open_client(publisher.settings(releases=publisher.deployment.jobs))
    with pytest.raises(ValueError, match="checksum"):
        publisher.settings(releases=publisher.releases.address.lower())


def test_a_superseded_release_is_warned_of_and_a_withdrawn_one_refused(publisher: Publisher) -> None:
    publisher.sender.send(publisher.releases.supersede("1.0", "1.1 is faster"))
    with structlog.testing.capture_logs() as told:
        open_client(publisher.settings())
    assert [event["reason"] for event in told if event["event"] == "release.superseded"] == ["1.1 is faster"]
    publisher.sender.send(publisher.releases.withdraw("1.0", "a bug in the court"))
    with pytest.raises(ReleaseRefused, match="withdrawn: 'a bug in the court'"):
        open_client(publisher.settings())


def test_other_code_than_was_published_is_refused(publisher: Publisher) -> None:
    at = publisher.deployment.addresses["Panel"]
    publisher.rpc("anvil_setCode", at, "0x" + load_artifact("Jobs").runtime.hex())
    with pytest.raises(ReleaseRefused, match=r"Panel .* is not that with which '1\.0' was published"):
        open_client(publisher.settings())


def test_other_code_than_this_builds_is_refused_whoever_published_it(publisher: Publisher) -> None:
    with pytest.raises(ReleaseRefused, match="other code as Court"):
        publisher.listed("1.1", Court=publisher.deployment.addresses["Opset1"])


def test_a_release_of_two_builds_is_refused(publisher: Publisher) -> None:
    time = publisher.deployment.addresses["Timekeeper"]
    other = publisher.create("DataAvailability", time, build=Build.PORTABLE)
    with pytest.raises(ReleaseRefused, match="other code as DataAvailability"):
        publisher.listed("1.1", DataAvailability=other)
    same = publisher.create("DataAvailability", time)
    with pytest.raises(ReleaseRefused, match=r"Jobs goes by .* as DATA_AVAILABILITY"):
        publisher.listed("1.2", DataAvailability=same)


def test_contracts_that_go_by_others_are_refused(publisher: Publisher) -> None:
    other = publisher.create("VerifierRegistry", 1, 1, publisher.deployment.addresses["Timekeeper"])
    with pytest.raises(ReleaseRefused, match=r"Panel goes by .* as REGISTRY"):
        publisher.listed("1.1", VerifierRegistry=other)


def test_contracts_that_ask_others_for_a_judgement_are_refused(publisher: Publisher) -> None:
    at = publisher.deployment.addresses
    referee = publisher.create("Referee", at["Notary"], at["Panel"])
    with pytest.raises(ReleaseRefused, match="other code as Judge"):
        publisher.listed("1.1", Referee=referee)
    jobs = publisher.create("Jobs", at["Notary"], at["DataAvailability"], 1)
    assert jobs != at["Jobs"]
    publisher.listed("1.2", Jobs=jobs)  # the same code and the same links are equally good
    other = publisher.create("VerifierRegistry", 1, 1, at["Timekeeper"])
    notary = publisher.create("Notary", other, 1, 1, 2)
    jobs = publisher.create("Jobs", notary, at["DataAvailability"], 1)
    with pytest.raises(ReleaseRefused, match=r"Notary goes by .* as REGISTRY"):
        publisher.listed("1.3", Jobs=jobs)


def test_contracts_that_go_by_another_time_are_refused(publisher: Publisher) -> None:
    other = publisher.create("Timekeeper", publisher.stranger.address, 365 * 24 * 3600)
    with pytest.raises(ReleaseRefused, match=r"goes by .* as TIME"):
        publisher.listed("1.1", Timekeeper=other)
    requests = publisher.create("DataAvailability", other)
    with pytest.raises(ReleaseRefused, match=r"Jobs goes by .* as DATA_AVAILABILITY"):
        publisher.listed("1.2", DataAvailability=requests)


@pytest.mark.parametrize("table", range(len(TABLES)))
def test_a_court_with_one_rule_of_another_kind_is_refused(table: int, publisher: Publisher) -> None:
    at = publisher.deployment.addresses
    tables = [[at[name] for name in names] for names in TABLES]
    tables[table][4] = at["Sources"]
    opset = publisher.create("Opset1", *tables)
    court = publisher.create("Court", publisher.create("Examiner", opset), at["Timekeeper"])
    panel = publisher.create("Panel", court, at["VerifierRegistry"])
    referee = publisher.create("Referee", at["Judge"], panel)
    with pytest.raises(ReleaseRefused, match=f"other code as {TABLES[table][4]}"):
        publisher.listed("1.1", Court=court, Panel=panel, Referee=referee)


def test_only_the_publisher_publishes_and_each_version_once(publisher: Publisher) -> None:
    releases = publisher.releases
    with pytest.raises(DeployError, match=r"only .* publishes"):
        refuse_unpublishable(releases, "1.1", publisher.stranger.address)
    with pytest.raises(DeployError, match="already"):
        refuse_unpublishable(releases, "1.0", publisher.sender.address)
    refuse_unpublishable(releases, "1.1", publisher.sender.address)
    call = releases.publish("1.1", 0, publisher.deployment.addresses)
    with pytest.raises(Reverted, match="OwnableUnauthorizedAccount"):
        publisher.stranger.send(call)
    publisher.sender.send(call)
    with pytest.raises(Reverted, match="VersionTaken"):
        publisher.sender.send(call)
    assert [release.version for release in releases.every()] == ["1.0", "1.1"]


def test_code_is_compared_but_for_its_immutables() -> None:
    court = load_artifact("Court")
    places = max(court.immutables, key=len)
    assert len(places) > 1
    filled = filled_in(court.runtime, places)
    at = places[0] - 1
    assert same_code(court.runtime, court)
    assert same_code(filled, court)
    assert not same_code(filled_in(court.runtime, places[1:]), court), (
        "a getter shows another value than counts"
    )
    assert not same_code(filled[:-1], court)
    assert not same_code(filled + b"\0", court)
    assert not same_code(b"", court)
    for place in (0, at, at - 1, at + 33, len(filled) - 1):
        assert not same_code(filled[:place] + bytes([filled[place] ^ 1]) + filled[place + 1 :], court)


def filled_in(code: bytes, places: Iterable[int]) -> bytes:
    """Return code with a word in these places."""
    found = bytearray(code)
    for at in places:
        found[at : at + 32] = b"\xab" * 32
    return bytes(found)
