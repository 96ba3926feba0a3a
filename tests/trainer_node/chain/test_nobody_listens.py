"""An endpoint at whose address nothing listens: a chain that was not started, and no limit of a provider."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.conftest import Assay, find_anvil, free_port
from trainer_node.chain import connect
from trainer_node.errors import NobodyListens


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_chain_that_the_message_starts_is_one_that_the_settings_find(host: str, tmp_path: Path) -> None:
    url = f"http://{host}:{free_port()}"
    with capture_logs() as events, pytest.raises(NobodyListens) as told:
        connect(url, 31337)
    (event,) = [line for line in events if line["event"].startswith("rpc.")]
    assert event["event"] == "rpc.nobody_listens"
    assert event["reason"] == f"nothing listens at {url.removeprefix('http://')}; it is asked again"
    assert told.value.advice == "", "the message has said what to do"
    command = re.search(r"`(anvil [^`]+)`", str(told.value))
    assert command is not None, told.value
    program, *options = shlex.split(command[1])
    assert program == "anvil"
    anvil = find_anvil()
    assert anvil is not None
    with subprocess.Popen([anvil, *options], cwd=tmp_path) as chain:
        try:
            while chain.poll() is None:
                try:
                    web3 = connect(url, 31337)
                    break
                except NobodyListens:
                    time.sleep(0.1)
            assert web3.eth.chain_id == 31337
        finally:
            chain.terminate()


def test_the_node_of_another_machine_is_started_there() -> None:
    with pytest.raises(NobodyListens, match=r"nothing listens at .*; start the node of the chain there, or"):
        # NOTE: an address of this machine that is none of loopback stands for another's.
        connect(f"http://0.0.0.0:{free_port()}", 1)


def test_commands_say_so_with_the_address(assay: Assay) -> None:
    address = f"127.0.0.1:{free_port()}"
    for command in (("job", "list"), ("deploy", "--data-dir", "client")):
        code, _, errors = assay(*command, "--rpc-url", f"http://{address}")
        assert code == 2
        assert f"nothing listens at {address}; start the chain (one of this machine: " in errors
        assert "or name another endpoint in rpc_url" in errors
        assert "rpc.endpoint_limits" not in errors, "it is no limit of a provider"
