"""The commands as a user types them, on a real service: serve, run against it, Ctrl-C; and the demo."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local_processes.ports import free_port
from tests.harness.sampling import where_changed

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]

CLI = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``serve`` that has said that it is ready, and its address."""
    words = ["--port", str(free_port()), "sandbox.kind=process", "pools.code.max_boxes=1"]
    words.append("environments.enabled=['code', 'echo']")
    process = subprocess.Popen(
        [*CLI, "serve", *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if line.startswith("ready: ")), "")
        assert ready, process.communicate()[1]
        yield process, ready.split()[1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *words], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_service_is_served_used_looked_at_and_interrupted(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, url):
        played = run(tmp_path, "run", "--server", url, "--split", "easy", "--limit", "8", "--json")
        empty = run(tmp_path, "run", "--server", url, "--policy", "empty", "--limit", "8", "--json")
        status = run(tmp_path, "status", "--server", url, "--json")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert played.returncode == empty.returncode == 0, played.stderr + empty.stderr
    assert json.loads(played.stdout)["overall"]["successes"] == 8
    assert json.loads(empty.stdout)["overall"]["successes"] == 0
    assert json.loads(status.stdout)["instances"] == 0
    assert process.returncode == 0
    assert "stopped" in errors
    assert "Traceback" not in errors


def test_the_demo_solves_every_bundled_task_and_shows_one(tmp_path: Path) -> None:
    result = run(tmp_path, "demo", "--json", "sandbox.kind=process")
    assert result.returncode == 0, result.stderr
    body = json.loads(result.stdout)
    assert body["overall"]["episodes"] >= 60
    assert body["overall"]["successes"] == body["overall"]["episodes"]
    assert {row["name"] for row in body["by_difficulty"]} == {"easy", "medium", "hard"}
    assert body["failures"] == {}
    assert body["trajectory"]["events"][0]["operation"] == "create"
    shown = run(tmp_path, "trajectories", "show", body["trajectory"]["instance_id"], "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["task_id"] == body["trajectory"]["task_id"]


def test_a_demo_that_is_interrupted_prints_the_finished_episodes_and_exits_with_130(tmp_path: Path) -> None:
    words = ["demo", "--concurrency", "1", "--json", "sandbox.kind=process"]
    process = subprocess.Popen(
        [*CLI, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    ready = next((line for line in process.stderr if line.startswith("ready: ")), "")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert ready, stderr
    assert process.returncode == 130, stderr
    assert "interrupted; finished episodes" in stderr
    assert len(json.loads(stdout)["episodes"]) < 60


@where_changed("serve", "the demo before this one is the same but for its last line")
def test_a_demo_in_which_a_reference_fails_says_which_and_exits_with_1(tmp_path: Path) -> None:
    task = {
        "id": "sums/one-and-one",
        "prompt": "What is 1 + 1?",
        "grader": {"kind": "numeric", "answer": 2},
        "reference": [{"tool": "submit", "arguments": {"answer": "3"}}],
    }
    (tmp_path / "sums.jsonl").write_text(json.dumps(task) + "\n")
    result = run(tmp_path, "demo", "sandbox.kind=process", "environments.code.task_files=['sums.jsonl']")
    assert result.returncode == 1
    assert "1 of 67 references failed: sums/one-and-one (score 0)" in result.stderr


def test_doctor_examines_this_machine_and_its_exit_code_is_for_scripts(tmp_path: Path) -> None:
    settings = ["sandbox.kind=process", f"server.port={free_port()}"]
    examined = run(tmp_path, "doctor", "--json", *settings)
    assert examined.returncode == 0, examined.stdout + examined.stderr
    findings = {(each["subject"], each["check"]): each for each in json.loads(examined.stdout)["findings"]}
    assert findings["boxes", "kind"]["status"] == "warning"
    assert findings["store", "schema"]["found"].endswith("empty, the first start creates its tables")
    assert "code" in findings["environments", "served"]["found"]
    assert not [each for each in findings.values() if each["check"] == "examined"]
    assert list(tmp_path.iterdir()) == []
    assert run(tmp_path, "doctor", "--strict", *settings).returncode == 1
    wrong = run(tmp_path, "doctor", "--require", "docker,teapot", *settings)
    assert wrong.returncode == 2
    assert "unknown capability 'teapot'" in wrong.stderr
    away = run(tmp_path, "doctor", *settings, "store.url='postgresql://sandbox@127.0.0.1:1/t'")
    assert away.returncode == 1
    assert "start the database" in away.stdout
