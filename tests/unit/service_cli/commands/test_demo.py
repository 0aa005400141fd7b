import socket

import pytest

from sandbox_service.config import ServiceConfig
from service_cli.commands.demo import demo_config, unsolved
from service_cli.policies.outcomes import EpisodeFailure, PlayedOutcome


def test_references_that_failed_are_named_with_what_became_of_them() -> None:
    outcomes = [
        PlayedOutcome("right", 1.0, score=1.0, success=True),
        PlayedOutcome("wrong", 1.0, score=0.8, success=False),
        PlayedOutcome("lost", 1.0, failed=EpisodeFailure("timeout", "step_timeout", "too late")),
    ]
    assert unsolved(outcomes) == ["wrong (score 0.8)", "lost (step_timeout)"]


@pytest.mark.parametrize(
    "server",
    [{"host": "::1"}, {"host": "0.0.0.0", "insecure": True}, {"api_keys": {"a" * 64: "team"}}],
    ids=["of IPv6", "all", "with keys"],
)
def test_the_demo_is_served_to_itself_alone_and_without_keys(server) -> None:
    found = demo_config(ServiceConfig.model_validate({"server": server, "store": {"max_pending": 7}}))
    assert (found.server.host, dict(found.server.api_keys)) == ("127.0.0.1", {})
    assert (found.environments.enabled, found.store.max_pending) == (("code",), 7)


def test_the_demo_takes_another_port_than_one_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert demo_config(ServiceConfig.model_validate({"server": {"port": port}})).server.port != port
