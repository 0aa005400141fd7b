"""The adapters' commands check what they are given, and say where they listen."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from sandbox_service.wire.frames import Op

SERVICE = Path(sys.executable).with_name("sandbox-service")


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    command = [SERVICE, "adapter", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def ready_line(*words: str) -> str:
    """The line with which a command says where it serves; it is interrupted then."""
    command = [SERVICE, "adapter", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        line = process.stdout.readline() if process.stdout else ""
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    return line


def test_an_environment_that_the_service_does_not_have_is_refused_by_name(address):
    done = ran("nemo-gym", "--env", "ecko", "--server", address)
    assert done.returncode == 2
    assert "unknown environment 'ecko'" in done.stderr
    assert "did you mean echo?" in done.stderr


@pytest.mark.parametrize(
    ("words", "below"),
    [(["nemo-gym"], "/ENVIRONMENT"), (["nemo-gym", "--env", "echo"], ""), (["openenv"], "/ENVIRONMENT")],
)
def test_the_ready_line_has_the_address_of_an_environment(address, words, below):
    url = ready_line(*words, "--server", address).split()[1].rstrip(";")
    assert httpx.URL(url).path == (below or "/")
    assert url.endswith(below or str(httpx.URL(url).port))


def test_rows_have_the_parameters_that_were_given(address, backend, tmp_path):
    words = ["--env", "tools", "--split", "train", "--limit", "1", "--params", '{"volume": 9}']
    output = tmp_path / "rows.jsonl"
    done = ran("nemo-gym-rows", *words, "--server", address, "-o", str(output))
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text())["params"] == {"volume": 9}
    created = [json.loads(call.body) for call in backend.calls if call.op is Op.CREATE]
    assert [each["params"] for each in created] == [{"volume": 9}]


def test_rows_of_a_dialogue_leave_no_file_and_an_error_with_task_and_remedy(address, backend, tmp_path):
    backend.opening_info = {"texts": "dialogue"}
    done = ran("nemo-gym-rows", "--env", "echo", "--server", address, "-o", str(tmp_path / "rows.jsonl"))
    assert done.returncode == 1
    assert "rows.jsonl was not written: echo-1: the task is a dialogue" in done.stderr
    assert "(--split, --params)" in done.stderr
    assert list(tmp_path.iterdir()) == []
