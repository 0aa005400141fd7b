import pytest

from deploy.preparation import prepare_sandboxes
from sandbox_service.config.reading import read_config
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.host import Host

NOBODY = "sandbox.docker_host=tcp://127.0.0.1:1"


def test_auto_takes_processes_where_no_engine_answers_and_says_why() -> None:
    lines_reported: list[str] = []
    words = ["sandbox.kind=auto", NOBODY, "sandbox.runsc=/nowhere/runsc"]
    settled = prepare_sandboxes(read_config(None, words), lines_reported.append)
    assert settled.sandbox.kind == "process"
    assert lines_reported[0].startswith("no docker sandboxes, since no Docker engine answers")
    assert lines_reported[1].startswith("no gvisor sandboxes, since no gVisor")
    assert "not a security boundary" in lines_reported[2]


def test_process_boxes_say_which_protections_are_on_and_which_are_not(tmp_path) -> None:
    lines_reported: list[str] = []
    prepare_sandboxes(
        read_config(None, ["sandbox.kind=process", f"sandbox.state_dir='{tmp_path}/closed'"]),
        lines_reported.append,
    )
    lines = dict(line.split(": ", 1) for line in lines_reported if line.startswith("protections"))
    named = ", ".join(lines.values()).split(", ")
    assert sorted(named) == sorted(Host("python3", drops_uids=False, namespaces=False).protections())
    # Other user ids cannot come to a state folder below one of pytest's.
    assert "own user ids" in lines["protections off"]
    assert list((tmp_path / "closed").iterdir()) == []


def test_docker_that_was_asked_for_and_does_not_answer_is_an_error() -> None:
    with pytest.raises(ServiceError, match="no Docker engine answers"):
        prepare_sandboxes(read_config(None, ["sandbox.kind=docker", NOBODY]), lambda _: None)


def test_no_other_boxes_take_the_place_of_containers_whose_runtime_is_configured() -> None:
    words = ["sandbox.kind=auto", "sandbox.docker_runtime=kata", NOBODY]
    with pytest.raises(ServiceError, match="no Docker engine answers"):
        prepare_sandboxes(read_config(None, words), lambda _: None)


def test_processes_that_were_asked_for_need_no_engine() -> None:
    config = read_config(None, ["sandbox.kind=process", NOBODY])
    assert prepare_sandboxes(config, lambda _: None) == config
