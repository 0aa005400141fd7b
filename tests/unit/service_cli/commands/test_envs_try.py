"""``sandbox-service envs try --server``: an episode by hand on a service that runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from typer.testing import CliRunner, Result

from sandbox_service.config import ServerConfig
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.environments.registry import Registry
from sandbox_service.gateway.app import build_app
from service_cli.commands.app import build_cli
from tests.fakes.backend import EchoBackend
from tests.fakes.games import GameBackend, game_registry
from tests.harness.http_server import serving


@pytest.fixture
def server() -> Iterator[str]:
    backend = GameBackend(game_registry("textcraft"))
    with serving(build_app(ServerConfig(), backend.registry, backend)) as url:
        yield url
    assert backend.live() == []


def try_out(*words: str, typed: str = "") -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(build_cli(), ("envs", "try", *words), input=typed)


def test_an_episode_is_played_on_a_service_that_runs(server: str) -> None:
    result = try_out("textcraft", "--server", server, "--split", "all", typed="go north\n/evaluate\n")
    assert result.exit_code == 0, result.output
    assert "task corridor-1" in result.stdout
    assert "You are out." in result.stdout
    assert "score 1, solved" in result.stdout


class BareCatalog(EchoCatalog):
    """Echo, with splits that have no tasks."""

    def task_ids(self, split: str) -> Sequence[str]:
        return ()


def test_a_split_without_tasks_is_refused_by_name() -> None:
    with serving(build_app(ServerConfig(), Registry({"echo": BareCatalog()}), EchoBackend())) as url:
        result = try_out("echo", "--server", url)
    assert result.exit_code == 1
    assert "the split train of echo has no tasks" in result.stderr


def test_tabs_are_shown_and_control_characters_are_not() -> None:
    with serving(build_app(ServerConfig(), Registry({"echo": EchoCatalog()}), EchoBackend())) as url:
        result = try_out("echo", "--server", url, "--task", "echo-1", typed="a\tb\x1b[31m\n")
    assert result.exit_code == 0, result.output
    assert "[user] a        b\ufffd[31m" in result.stdout


def test_an_environment_that_the_service_lacks_is_refused_by_name(server: str) -> None:
    result = try_out("textcraf", "--server", server)
    assert result.exit_code == 2
    assert "did you mean textcraft?" in result.stderr


@pytest.mark.parametrize("kind", ["process", "docker", "gvisor"])
def test_settings_of_a_box_of_its_own_do_not_go_with_a_service(kind: str) -> None:
    result = try_out("textcraft", "--server", "http://127.0.0.1:9", "--sandbox", kind)
    assert result.exit_code == 2
    assert "without --server" in result.stderr
