"""``sandbox-service run`` plays a policy on each held-out split of a service in this process."""

import json
from collections import Counter

import pytest
from starlette.responses import JSONResponse

from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.chat_server import FakeChatServer, calls
from tests.fakes.games import GameBackend, game_registry
from tests.harness.http_server import serving
from trainer.config.reading import read_run
from trainer.errors import ConfigError, DataError, ServiceUnavailable
from trainer.launch.baseline import evaluate_baseline


def test_a_split_whose_command_fails_has_not_the_results_of_the_one_before() -> None:
    fake = FakeChatServer(lambda _: calls("act", action="go north"))
    asked: list[str] = []

    async def once(scope, receive, send) -> None:
        """The model server accepts the key of one command, which asks for its models first."""
        if scope["type"] == "http" and scope["path"].endswith("/models"):
            asked.append(scope["path"])
            if len(asked) > 1:
                refused = JSONResponse({"error": {"message": "the key has expired"}}, 401)
                return await refused(scope, receive, send)
        return await fake.app(scope, receive, send)

    backend = GameBackend(game_registry("textcraft"))
    with serving(build_app(ServerConfig(), backend.registry, backend)) as url, serving(once) as model:
        words = ["tasks.environment=textcraft", 'evaluation.splits=["all", "train"]']
        run = read_run(None, [f"service.url={url}", 'tasks.splits=["train"]', *words])
        with pytest.raises(ServiceUnavailable, match=r"could not play .* on textcraft/train: .*has expired"):
            evaluate_baseline(run, f"openai:m@{model}")
    assert len(fake.bodies) == 6


def test_a_limit_is_divided_among_the_splits_and_each_episode_graded_as_those_of_the_run() -> None:
    backend = GameBackend(game_registry("textcraft"))
    with serving(build_app(ServerConfig(), backend.registry, backend)) as url:
        words = ["evaluation.limit=3", "rollout.evaluation_params={sparse=true}"]
        words += ["tasks.environment=textcraft", 'evaluation.splits=["all", "train"]']
        run = read_run(None, [f"service.url={url}", *words])
        result = evaluate_baseline(run, "empty")
    assert Counter(task.split for task in result.tasks) == {"all": 2, "train": 1}
    graded = [json.loads(call.body)["params"] for call in backend.calls if call.op is Op.EVALUATE]
    assert graded == [{"sparse": True}] * 3


def test_a_split_that_the_service_lacks_is_refused_before_another_is_played() -> None:
    backend = GameBackend(game_registry("textcraft"))
    with serving(build_app(ServerConfig(), backend.registry, backend)) as url:
        words = ["tasks.environment=textcraft", "evaluation.limit=2"]
        run = read_run(None, [f"service.url={url}", 'evaluation.splits=["all", "tests"]', *words])
        with pytest.raises(DataError, match="tests"):
            evaluate_baseline(run, "empty")
    assert backend.episodes == {}


def test_an_unknown_policy_is_refused_before_a_service_is_needed() -> None:
    run = read_run(None, ["service.url=http://127.0.0.1:9", "service.start_timeout_s=0.01"])
    with pytest.raises(ConfigError, match="unknown policy 'foo'; choose random, reference, empty or openai:"):
        evaluate_baseline(run, "foo")
