"""verifiers' own ``vf-eval`` plays the taskset ``sandbox-taskset``."""

import json
import os
import subprocess

import pytest
from starlette.types import ASGIApp

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op
from tests.fakes.chat_server import FakeChatServer, Reply
from tests.fakes.tool_calling_server import tool_calling_server
from tests.harness.agent_packages import ROOT, agent_python
from tests.harness.http_server import serving
from tests.harness.sampling import where_changed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), where_changed("frameworks")]

EVALUATION = ROOT / "examples" / "adapters" / "verifiers" / "taskset.toml"
RUN_S = 600


FAILING = FakeChatServer(lambda _: Reply({"error": {"message": "no such model"}}, 400)).app


@pytest.fixture
def evaluated(address, tmp_path):
    """Evaluates a model on echo's first task and returns the episode."""

    def evaluate(model: ASGIApp) -> list[dict]:
        python = agent_python("adapters/verifiers")
        with serving(model) as server:
            text = EVALUATION.read_text().replace("http://127.0.0.1:8080", address)
            text = text.replace("http://127.0.0.1:8000", server).replace('"code"', '"echo"')
            (tmp_path / "eval.toml").write_text(text)
            done = subprocess.run(
                [python.with_name("vf-eval"), "@", "eval.toml"],
                cwd=tmp_path,
                env=os.environ | {"MODEL_API_KEY": "any"},
                capture_output=True,
                text=True,
                timeout=RUN_S,
                check=False,
            )
        found = [
            json.loads(line)
            for file in tmp_path.glob("outputs/**/traces.jsonl")
            for line in file.read_text().splitlines()
        ]
        assert found, done.stdout + done.stderr
        return found

    return evaluate


def test_an_episode_is_played_by_the_unmodified_command_and_its_score_is_the_reward(evaluated, backend):
    (found,) = evaluated(tool_calling_server([]))
    text = json.dumps(found)
    assert '"score": {"score": 1.0, "weight": 1.0}' in text
    assert '"success": 1.0' in text
    assert "echo-1" in text
    assert "Say something." in text
    assert found["ok"]
    assert all(episode.released for episode in backend.episodes.values())


def test_a_model_that_does_not_answer_is_an_error_and_no_reward(evaluated, backend):
    (found,) = evaluated(FAILING)
    assert '"score"' not in json.dumps(found)
    assert not found["ok"]
    assert all(episode.released for episode in backend.episodes.values())


def test_a_failure_of_the_service_is_an_error_and_no_reward(evaluated, backend):
    backend.failures[Op.EVALUATE] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
    (found,) = evaluated(tool_calling_server([]))
    text = json.dumps(found)
    assert '"score"' not in text
    assert "broken" in text
    assert all(episode.released for episode in backend.episodes.values())


def test_a_second_session_is_an_error_and_no_reward_as_the_conversation_has_the_first(evaluated, backend):
    backend.step_info = {"new_session": True}
    (found,) = evaluated(tool_calling_server([]))
    text = json.dumps(found)
    assert '"score"' not in text
    assert "the task has several sessions" in text
    assert not found["ok"]
    assert all(episode.released for episode in backend.episodes.values())
