"""The service's image with gVisor, run as an unprivileged pod runs it: no right, no engine, a read-only root.

SANDBOX_GVISOR_IMAGE names an image to try in place of one that is built here, which takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_service.sandboxes.image_labels import MARK, PREFIX
from service_cli.api_keys import new_api_key
from tests.harness.boxes import need_engine, need_gvisor
from tests.harness.sampling import where_changed

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    where_changed("project_images", "the manifests' tests compare the image's parts with the chart"),
]

ROOT = Path(__file__).parents[3]
KEY = new_api_key("test")
SETTINGS = ["sandbox.kind=gvisor", "sandbox.gvisor_root=/opt/sandbox-root"]
UNPRIVILEGED = [
    "--user=10001:10001",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--security-opt=seccomp=unconfined",
    "--read-only",
    "--shm-size=512m",
    "--volume=/tmp",
    "--volume=/run/sandbox-service",
]
"""As the chart's pods, whose writable folders are volumes."""
SERVICE = f"""
environments.enabled = ["code"]
pools.code.max_boxes = 1
sandbox.kind = "gvisor"
sandbox.gvisor_root = "/opt/sandbox-root"
server = {{ host = "0.0.0.0", api_keys = {{ "{KEY.digest}" = "test" }} }}
"""


def run(*words: str, timeout_s: float = 120, check: bool = True) -> str:
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0 or not check, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    need_engine()
    need_gvisor()
    if given := os.environ.get("SANDBOX_GVISOR_IMAGE"):
        yield given
        return
    tags = [f"training-sandbox-{uuid.uuid4().hex[:8]}:{kind}" for kind in ("service", "gvisor")]
    build = (sys.executable, "-m", "scripts.project_image")
    try:
        run(*build, "service", tags[0], timeout_s=1200)
        run(*build, "gvisor", tags[1], "--service", tags[0], timeout_s=900)
        yield tags[1]
    finally:
        run("docker", "image", "rm", "--force", *tags, check=False)


@pytest.fixture
def server(image: str, tmp_path: Path) -> Iterator[str]:
    """The address of a service in a container."""
    (tmp_path / "service.toml").write_text(SERVICE)
    # The container's user is another one.
    tmp_path.chmod(0o755)
    name = f"gvisor-image-{uuid.uuid4().hex[:8]}"
    mounted = f"--volume={tmp_path}:/etc/sandbox-service:ro"
    command = (image, "serve", "--config", "/etc/sandbox-service/service.toml")
    run("docker", "run", "--detach", "--name", name, *UNPRIVILEGED, mounted, "-p127.0.0.1::8080", *command)

    try:
        follow = ["docker", "logs", "--follow", name]
        with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as log:
            assert log.stdout is not None
            said = []
            # The log ends with the container; the test's own time limit is the bound.
            for line in log.stdout:
                said.append(line)
                if line.startswith("ready: "):
                    break
            log.kill()
        assert said[-1].startswith("ready: "), "".join(said)
        yield f"http://{run('docker', 'port', name, '8080').splitlines()[0]}"
    finally:
        run("docker", "rm", "--force", "--volumes", name, check=False)


def test_the_image_has_labels_and_a_user_without_rights(image: str) -> None:
    (described,) = json.loads(run("docker", "image", "inspect", image))
    labels = described["Config"]["Labels"]
    assert labels[MARK] == labels[f"{PREFIX}title"] == "training-sandbox"
    assert labels[f"{PREFIX}licenses"] == "Apache-2.0"
    assert labels[f"{PREFIX}version"]
    assert described["Config"]["User"] == "10001:10001"


def test_no_program_in_the_image_changes_its_user(image: str) -> None:
    find = "find / -xdev -type f -perm /6000"
    assert run("docker", "run", "--rm", "--user=0", "--entrypoint=sh", image, "-c", find) == ""


def test_doctor_finds_gvisor_and_no_engine(image: str) -> None:
    words = ("docker", "run", "--rm", *UNPRIVILEGED, image, "doctor", "--json", *SETTINGS)
    examined = json.loads(run(*words))
    found = {(each["subject"], each["check"]): each for each in examined["findings"]}
    assert examined["status"] != "problem"
    assert found["gvisor", "trial"]["found"] == "/usr/local/bin/runsc starts boxes"
    assert found["boxes", "kind"]["found"] == "gvisor boxes (configured)"
    assert "no Docker engine answers" in found["engine", "reachable"]["found"]


def test_an_episode_of_code_is_played_from_outside_and_graded(server: str, monkeypatch) -> None:
    monkeypatch.setenv("SANDBOX_API_KEY", KEY.secret)
    command = (sys.executable, "-c", "from service_cli.command_line import service; service()")
    words = ("run", "--server", server, "--env", "code", "--split", "easy", "--limit", "1", "--json")
    overall = json.loads(run(*command, *words, timeout_s=300))["overall"]
    assert (overall["episodes"], overall["successes"]) == (1, 1)
