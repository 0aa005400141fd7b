import pytest

from deploy.config_file import read_config
from deploy.preparation import prepared
from sandbox_service.errors import ServiceError

NOBODY = "sandbox.docker_host=tcp://127.0.0.1:1"


def test_auto_takes_processes_where_no_engine_answers_and_says_why() -> None:
    told: list[str] = []
    settled = prepared(read_config(None, ["sandbox.kind=auto", NOBODY]), told.append)
    assert settled.sandbox.kind == "process"
    assert told[0].startswith("process sandboxes, since no Docker engine answers")
    assert "no security boundary" in told[1]


def test_docker_that_was_asked_for_and_does_not_answer_is_an_error() -> None:
    with pytest.raises(ServiceError, match="no Docker engine answers"):
        prepared(read_config(None, ["sandbox.kind=docker", NOBODY]), lambda _: None)


def test_processes_that_were_asked_for_need_no_engine() -> None:
    config = read_config(None, ["sandbox.kind=process", NOBODY])
    assert prepared(config, lambda _: None) == config
