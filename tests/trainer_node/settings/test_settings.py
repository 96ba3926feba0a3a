"""Flags win over the environment, which wins over the file, which wins over defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer_node.errors import ConfigError
from trainer_node.settings.extent import Mode
from trainer_node.settings.retired import RETIRED
from trainer_node.settings.settings import EVALUATORS, load_settings


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("ASSAY_NO_SUCH", "1", "is not a setting; unset it"),
        ("assay_no_such", "1", "is not a setting; unset it"),
        ("ASSAY_LIMITS__FOO", "1", r"unset \$ASSAY_LIMITS__FOO"),
        ("ASSAY_FEES__MAX_FEE_GWEI", "inf", "fees.max_fee_gwei"),
        ("ASSAY_MAX_STAKE_ETH", "inf", "max_stake_eth"),
        ("ASSAY_MAX_WATCH_ETH", "nan", "max_watch_eth"),
    ],
)
def test_variables_that_are_no_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=why):
        load_settings()


@pytest.mark.parametrize(("old", "new"), RETIRED.items())
def test_a_retired_name_is_told_by_its_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "old.toml"
    file.write_text(f"{old} = 1\n")
    with pytest.raises(ConfigError, match=f"its name is now {new}"):
        load_settings(file)
    monkeypatch.setenv(f"ASSAY_{old.upper()}", "1")
    with pytest.raises(ConfigError, match=f"its name is now {new}"):
        load_settings()


def test_every_evaluator_can_be_set_and_made() -> None:
    variations, built_in = map(
        pytest.importorskip, ("assay_lab.evaluators", "trainer_node.rounded.evaluators")
    )
    assert set(EVALUATORS) == set(built_in.EVALUATORS)
    for name in variations.VARIATIONS:
        assert load_settings(evaluator=name).evaluator == built_in.evaluator_of(name).name == name


def test_an_unknown_evaluator_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="'abacus'; use one of blocked, direct"):
        load_settings(evaluator="abacus")


def write(text: str, name: str = "assay.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_defaults_are_for_a_local_chain() -> None:
    settings = load_settings()
    assert (settings.chain_id, settings.confirmations, settings.mode) == (31337, 0, Mode.WATCH)
    assert settings.deployment_file == Path("deployments/31337.json")
    assert settings.keystore_path == Path(".assay/key.json")


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    write('port = 1\nhost = "file"\nmode = "defend"\n[limits]\nrpc_bytes = 100000\nlog_range = 5\n')
    assert (load_settings().port, load_settings().host) == (1, "file")
    monkeypatch.setenv("ASSAY_PORT", "2")
    monkeypatch.setenv("ASSAY_LIMITS__RPC_BYTES", "200000")
    settings = load_settings()
    assert (settings.port, settings.host, settings.mode) == (2, "file", Mode.DEFEND)
    assert (settings.limits.rpc_bytes, settings.limits.log_range) == (200000, 5)
    assert load_settings(port=3, host=None).port == 3


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [load_settings(workers=count).worker_threads for count in (1, 3, 8, 64)] == [8, 2, 1, 1]
    assert load_settings(workers=4, threads=5).worker_threads == 5, "of each"


def test_named_file_wins_over_the_one_in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    write("port = 1")
    other = write("port = 2", "other.toml")
    assert load_settings(other).port == 2
    monkeypatch.setenv("ASSAY_CONFIG", str(other))
    assert load_settings().port == 2
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load_settings(Path("missing.toml"))


def test_a_mark_of_the_byte_order_is_no_setting() -> None:
    Path("assay.toml").write_bytes(b"\xef\xbb\xbfport = 7\r\n")
    assert load_settings().port == 7


def test_confirmations_follow_the_chain() -> None:
    assert load_settings(chain_id=1).confirmations == 3
    assert load_settings(chain_id=1, confirmations=0).confirmations == 0
    assert load_settings(confirmations=2).confirmations == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = 70000", ["port", "70000", "65536", "ASSAY_PORT"]),
        ("prot = 1", ["prot", "not a setting", "assay.toml"]),
        ('chain_id = "one"', ["chain_id", "one", "integer"]),
        ('mode = "attack"', ["mode", "attack", "'watch', 'defend' or 'challenge'"]),
        ('rpc_url = "ws://host"', ["rpc_url", "https://"]),
        ('public_uri = "http://user:pw@host"', ["public_uri", "no user"]),
        ("workers = 0", ["workers", "0", "greater than or equal to 1", "ASSAY_WORKERS"]),
        ("workers = 65", ["workers", "65", "less than or equal to 64"]),
        ('worker_backend = "nccl"', ["worker_backend", "'nccl'", "should be 'gloo'"]),
        ("worker_timeout_s = 0", ["worker_timeout_s", "greater than or equal to 1"]),
        ("[limits]\nrpc_bytes = 1", ["limits.rpc_bytes", "65536", "ASSAY_LIMITS__RPC_BYTES"]),
        ("port = ", ["cannot be read", "has to be TOML"]),
        ("", ["assay.toml is empty", "write it again"]),
        ("#" * (1 << 20), ["assay.toml", "longer than 262144 bytes", "--config"]),
        ("\0" * 99, ["cannot be read", "has to be TOML"]),
        ("a = " + "[" * 100_000, ["cannot be read", "has to be TOML"]),
        ("\n".join(f"k{k} = {k}" for k in range(9_999)), ["k0 is not a setting", "k4 is", "and 9994 more"]),
    ],
)
def test_errors_name_value_limit_and_remedy(text: str, words: list[str]) -> None:
    write(text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    for word in words:
        assert word in str(caught.value)


def test_password_comes_from_file_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().read_password() is None
    monkeypatch.setenv("ASSAY_PASSWORD", "from the environment")
    assert load_settings().read_password() == "from the environment"
    assert "from the environment" not in repr(load_settings())
    file = write("from the file\n", "password")
    assert load_settings(password_file=file).read_password() == "from the file"
    with pytest.raises(ConfigError, match="nowhere"):
        load_settings(password_file=Path("nowhere")).read_password()
