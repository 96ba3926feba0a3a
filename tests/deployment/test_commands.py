"""The commands of Dockerfile and compose file, executed without Docker: in an empty folder, without other variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import Anvil, free_port
from tests.deployment.image import stages
from tests.deployment.test_files import DEPLOY, ROOT
from tests.test_wheel import PIP_WHEEL, run
from trainer_node.daemon.keys import create_key

PASSWORD = "of the keys"
START_TIMEOUT_S = 300.0


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it compiles the kernels and installs everything anew
def test_the_image_s_commands_make_a_node_that_its_healthcheck_calls_healthy(
    tmp_path: Path, anvil: Anvil
) -> None:
    build, final = stages(DEPLOY / "Dockerfile")
    context, prefix = tmp_path / "context", tmp_path / "opt" / "assay"
    run([*PIP_WHEEL, context / "dist", ROOT], tmp_path)
    shutil.copy(ROOT / "constraints.txt", context)

    # The first stage: its files, its folder, its command, and its one argument.
    work = tmp_path / "build"
    work.mkdir()
    *sources, target = build.only("COPY").split()
    assert target == "./"
    for pattern in sources:
        (path,) = context.glob(pattern)
        shutil.copy(path, work)
    home = tmp_path / "home"
    home.mkdir()
    # Packages come from where this machine gets them; an image would ask the default registry.
    registry = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    found = os.pathsep.join((str(Path(sys.executable).resolve().parent), os.defpath))
    environment = {"PATH": found, "HOME": str(home), "PREFIX": str(prefix), **registry}
    said = run(["/bin/sh", "-c", build.only("RUN")], work, environment)
    assert said.splitlines()[-1].startswith("assay "), said
    assert not (prefix / "bin" / "pip").exists()

    # The second stage: what it copies, its variables, its command; compose gives the rest.
    data, port = tmp_path / "data", free_port()
    given = {
        **final.variables(),
        "ASSAY_DATA_DIR": str(data),
        "ASSAY_HOST": "127.0.0.1",
        "ASSAY_PORT": str(port),
        "ASSAY_RPC_URL": anvil.url,
        "ASSAY_CHAIN_ID": str(anvil.chain_id),
        "ASSAY_DEPLOYMENT": str(tmp_path / "deployment.json"),
        "ASSAY_PASSWORD_FILE": str(tmp_path / "password"),
        "PATH": os.pathsep.join((str(prefix / "bin"), os.defpath)),
        "HOME": str(home),
    }
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert set(service["environment"]) - {"ASSAY_PUBLIC_URI"} <= set(given)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "password").chmod(0o600)
    create_key(data / "key.json", PASSWORD, key=anvil.keys[0], work_factor=2)
    (assay,) = final.words("ENTRYPOINT")
    given["ASSAY_DEPLOYMENT"] = str(tmp_path / "deployment.json")
    run([prefix / "bin" / assay, "deploy", "--commit-age", "1"], home, given)
    health = [*final.words("HEALTHCHECK")]
    for command in (final.words("CMD"), *(service["command"] for service in services.values())):
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(
                [prefix / "bin" / assay, *command], cwd=home, env=given, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while subprocess.run(health, env=given, capture_output=True, check=False).returncode:
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.2)
            assert httpx.get(f"http://127.0.0.1:{port}/readyz").json()["ready"]
        finally:
            process.terminate()
            assert process.wait(timeout=START_TIMEOUT_S) == 0, (tmp_path / "log").read_text()
    assert subprocess.run(health, env=given, capture_output=True, check=False).returncode, "nothing runs now"
