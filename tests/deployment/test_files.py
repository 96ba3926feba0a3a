"""The files of deploy/: what linters and the service manager say about them, and what they promise."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployment.image import stages
from trainer_node.settings.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "assay@.service"
BIN = Path(sys.executable).parent
ROLES = ("trainer", "challenger", "verifier")


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_the_dockerfile_has_no_findings() -> None:
    done = subprocess.run(
        [BIN / "hadolint", "--failure-threshold", "style", DEPLOY / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_holds_no_tools_and_runs_as_nobody_in_particular() -> None:
    build, final = stages(DEPLOY / "Dockerfile")
    assert build.base == final.base, "the environment's interpreter must be there in the final image, too"
    assert final.only("USER").isdecimal()
    assert int(final.only("USER")) > 0
    assert f"--uid {final.only('USER')} " in final.all("RUN")[0]
    assert final.only("COPY") == "--from=build /opt/assay /opt/assay"
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {word.lstrip("!") for word in ignored[1:]} == set(build.only("COPY").split()[:-1])
    assert final.variables()["ASSAY_DATA_DIR"] == final.only("VOLUME")
    assert final.variables()["ASSAY_PORT"] == final.only("EXPOSE")


def test_what_files_set_are_settings() -> None:
    given = set(stages(DEPLOY / "Dockerfile")[1].variables())
    for service in compose()["services"].values():
        given |= set(service["environment"])
    given |= set(re.findall(r"^Environment=(\w+)=", UNIT.read_text(), re.MULTILINE))
    names = {name.removeprefix("ASSAY_").lower() for name in given if name != "PATH"}
    assert names
    assert names <= set(Settings.model_fields)


def test_services_keep_to_the_least_that_they_need() -> None:
    services, volumes = compose()["services"], set(compose()["volumes"])
    assert set(services) == set(ROLES)
    mounted = []
    for role, service in services.items():
        assert service["command"][:2] == [role, "run"]
        assert service["profiles"] == [role]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["secrets"] == ["password"]
        assert not set(service) & {"privileged", "network_mode", "pid", "user", "devices", "cap_add"}
        data = [volume for volume in service["volumes"] if volume.endswith(":/var/lib/assay/data")]
        assert len(data) == 1
        mounted.append(data[0].partition(":")[0])
    assert sorted(mounted) == sorted(volumes), "each daemon has a volume of its own"
    assert len({service["ports"][0] for service in services.values() if "ports" in service}) == 2


def test_no_file_names_an_address() -> None:
    for path in (DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", UNIT):
        hosts = set(re.findall(r"[a-z]+://([^/\s:]*)", path.read_text()))
        assert hosts <= {"127.0.0.1"}, path
    for stage in stages(DEPLOY / "Dockerfile"):
        assert "/" not in stage.base, "an official image of the default registry"


@pytest.mark.parametrize("role", ROLES)
def test_the_service_manager_takes_the_unit(role: str, tmp_path: Path) -> None:
    """With the command of this environment, because the manager looks whether it exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = UNIT.read_text()
    assert text.count("/opt/assay/bin/assay ") == 1
    (tmp_path / UNIT.name).write_text(text.replace("/opt/assay/bin/assay ", f"{BIN / 'assay'} "))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / f"assay@{role}.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
