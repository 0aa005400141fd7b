"""Log lines."""

import io
import json
import logging

import pytest

from sandbox_service.telemetry import configure_logging, get_logger


@pytest.fixture
def stream():
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json(stream):
    configure_logging(json=True, stream=stream)
    get_logger("service.part").info("box_started", box="b1", seconds=0.5)
    (line,) = lines(stream)
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "box_started",
        "level": "info",
        "logger": "service.part",
        "box": "b1",
        "seconds": 0.5,
    }


def test_lines_for_people_name_the_event_and_the_facts(stream):
    configure_logging(stream=stream)
    get_logger("service.part").warning("box_started", box="b1")
    assert "box_started" in stream.getvalue()
    assert "box=b1" in stream.getvalue()


def test_a_logger_made_before_the_setup_follows_it(stream):
    logger = get_logger("early")
    configure_logging(json=True, stream=stream)
    logger.info("began")
    assert lines(stream)[0]["event"] == "began"


def test_the_standard_librarys_loggers_come_out_in_the_same_shape(stream):
    configure_logging(json=True, stream=stream)
    logging.getLogger("another.library").warning("took %d s", 3)
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("took 3 s", "warning", "another.library")


def test_lines_below_the_level_are_left_out(stream):
    configure_logging("warning", json=True, stream=stream)
    get_logger("part").info("quiet")
    get_logger("part").error("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_a_line_a_request_of_a_library_is_left_out(stream):
    configure_logging(json=True, stream=stream)
    logging.getLogger("httpx").info("GET https://host/?secret=1")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("name", ["body", "authorization", "api_key", "token", "message", "response"])
def test_secrets_and_bodies_are_withheld_whoever_logs_them(stream, name):
    configure_logging(json=True, stream=stream)
    get_logger("part").info("came", **{name: "hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert lines(stream)[0][name] == "(withheld)"


def test_an_exception_is_part_of_its_line(stream):
    configure_logging(json=True, stream=stream)
    try:
        int("gone")
    except ValueError:
        get_logger("part").exception("failed")
    (line,) = lines(stream)
    assert "ValueError: invalid literal" in line["exception"]


def test_setting_up_twice_writes_each_line_once(stream):
    configure_logging(json=True, stream=stream)
    configure_logging(json=True, stream=stream)
    get_logger("part").info("once")
    assert len(lines(stream)) == 1


def test_an_unknown_level_is_rejected(stream):
    with pytest.raises(ValueError, match="unknown log level 'loud'; expected one of: debug, info"):
        configure_logging("loud", stream=stream)
