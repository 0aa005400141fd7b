"""``sandbox-service node-env``: one node on loopback, unless a cluster is asked for."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from service_cli.commands.app import build_cli

LOOPBACK = "export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0"


@pytest.mark.parametrize(
    ("words", "on_loopback", "said"),
    [
        ([], True, "no other node can join (for several nodes: --cluster)"),
        (["--cluster"], False, "its metrics need no token: close its ports to others by a firewall"),
        (["--one-node"], True, "--one-node is the default and will be removed"),
    ],
    ids=["one node", "cluster", "the former option"],
)
def test_rays_ports_are_on_loopback_unless_a_cluster_is_asked_for(tmp_path, words, on_loopback, said):
    done = CliRunner().invoke(build_cli(), ["node-env", *words, str(tmp_path / "node")])
    assert done.exit_code == 0, done.output
    assert (LOOPBACK in done.stdout.splitlines()) is on_loopback
    assert all(line.startswith("export ") for line in done.stdout.splitlines())
    assert "export RAY_AUTH_MODE=token" in done.stdout.splitlines()
    assert said in done.stderr


def test_a_node_cannot_be_alone_and_in_a_cluster(tmp_path):
    done = CliRunner().invoke(build_cli(), ["node-env", "--one-node", "--cluster", str(tmp_path / "node")])
    assert done.exit_code != 0
    assert "export" not in done.stdout


def evaluate(*words: str) -> subprocess.CompletedProcess[str]:
    """Let a shell evaluate what ``node-env`` prints for these words, and then say that Ray starts."""
    service = [sys.executable, "-c", "from service_cli.command_line import service; service()", "node-env"]
    script = ["sh", "-ec", 'eval "$("$@")"\necho ray start', "sh"]
    return subprocess.run([*script, *service, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [["node", "fleet.no_such=1"], ["/dev/null/node"], [], ["--no-such", "node"], ["--config"]],
    ids=["a wrong setting", "a folder that cannot be made", "no folder", "a wrong option", "no value"],
)
def test_a_shell_that_evaluates_the_variables_of_a_failure_fails(tmp_path, monkeypatch, words):
    """``eval "$(false)"`` returns 0, after which Ray would start without its token, on all interfaces."""
    monkeypatch.chdir(tmp_path)
    started = evaluate(*words)
    assert (started.returncode, started.stdout) == (1, ""), started.stderr


def test_a_folder_that_others_use_is_not_closed_to_them(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "data.txt").touch()
    done = CliRunner().invoke(build_cli(), ["node-env", str(shared)])
    assert done.exit_code == 1
    assert "Name a new or empty folder" in done.stderr
    assert shared.stat().st_mode & 0o777 == 0o755
    assert [file.name for file in shared.iterdir()] == ["data.txt"]


def test_a_folder_with_the_token_of_the_cluster_is_used_and_made_private(tmp_path):
    (tmp_path / "token").write_text("of-the-head")
    (tmp_path / "haproxy").touch()
    tmp_path.chmod(0o755)
    assert evaluate(str(tmp_path)).stdout == "ray start\n"
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "token").read_text() == "of-the-head"


def test_a_shell_that_evaluates_the_variables_of_a_success_goes_on(tmp_path):
    assert evaluate(str(tmp_path / "node")).stdout == "ray start\n"
