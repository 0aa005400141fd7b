"""Results of calls, beside the package's own runner."""

import json

import pytest

from sandbox_service.environments.shared.box.calls import parse_calls
from tests.harness.hostile_messages import hostile_messages


@pytest.fixture
def files(engine, catalog):
    task = catalog.files.task("multi_turn_base_0")
    return engine.make_objects(["GorillaFileSystem"], task["config"], long_context=False)["GorillaFileSystem"]


@pytest.fixture
def math(engine):
    return engine.make_objects(["MathAPI"], {}, long_context=False)["MathAPI"]


def test_a_text_result_is_shown_as_json_and_an_error_is_no_success(engine, files):
    found = engine.call(files, "cd", {"folder": "document"})
    lost = engine.call(files, "cd", {"folder": "nowhere"})
    assert json.loads(found.text) == {"current_working_directory": "document"}
    assert (found.succeeded, lost.succeeded) == (True, False)


def test_what_a_method_raises_is_told(engine, files):
    result = engine.call(files, "cd", {"folder": []})
    assert result.text.startswith("Error during execution: ")
    assert not result.succeeded


@pytest.mark.parametrize("value", ["sort (all)", "\\(", 'it\'s "("', "a\\\\(b", ["x(y", {"k(": "("}]])
def test_a_call_as_text_is_the_same_call(engine, value):
    text = engine.call_text("echo", {"content": value})
    assert text.count("(") == 1
    assert eval(text, {"echo": lambda content: content}) == value


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("round_number", {"number": 2, "decimal_places": -(10**9)}),
        ("power", {"base": 10**9, "exponent": 10**9}),
    ],
)
def test_calls_that_would_take_for_ever_are_refused(engine, math, method, arguments):
    assert engine.refusal(math, method, arguments) is not None


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("power", {"base": 2, "exponent": 10}), ("logarithm", {"value": 8, "base": 2, "precision": 5})],
)
def test_ordinary_calls_are_not_refused(engine, math, method, arguments):
    assert engine.refusal(math, method, arguments) is None
    assert engine.call(math, method, arguments).succeeded


def entangle(engine, files, levels):
    """Put two copies of each directory into the next one; return the calls that were refused."""
    calls = [("mkdir", {"dir_name": "d0"})]
    for level in range(levels):
        calls += [
            ("cp", {"source": f"d{level}", "destination": f"x{level}"}),
            ("mkdir", {"dir_name": f"d{level + 1}"}),
            ("cp", {"source": f"d{level}", "destination": f"d{level + 1}"}),
            ("cp", {"source": f"x{level}", "destination": f"d{level + 1}"}),
        ]
    refused = 0
    for method, arguments in calls:
        if engine.refusal(files, method, arguments) is None:
            engine.call(files, method, arguments)
        else:
            refused += 1
    return refused


def test_copies_in_copies_end_before_their_paths_fill_the_memory(engine, files):
    assert entangle(engine, files, 40) > 0
    found = engine.refusal(files, "find", {"path": "."}), engine.refusal(files, "du", {})
    assert found == ("the file system has too many paths, or too long ones",) * 2
    assert engine.refusal(files, "ls", {}) is None
    assert engine.refusal(files, "rm", {"file_name": "d30"}) is None


def test_a_long_way_to_many_files_is_refused(engine, files):
    assert engine.refusal(files, "find", {"path": "document"}) is None
    assert engine.refusal(files, "find", {"path": "./" * 100_000}) is not None


def test_ordinary_copies_and_searches_are_not_refused(engine, files):
    assert entangle(engine, files, 5) == 0
    assert engine.refusal(files, "find", {}) is None


def test_an_argument_name_is_what_the_checkers_read_it_as(engine, files):
    assert eval(engine.call_text("f", {"\ufb01le_name": 1}), {"f": dict}) == {"file_name": 1}
    assert engine.refusal(files, "touch", {"\ufb01le_name": "a"}) == "'\ufb01le_name' is no argument name"
    assert engine.refusal(files, "touch", {"file_name": "a"}) is None


def test_our_results_are_those_of_the_official_runner(engine, catalog):
    official = engine.official("eval_checker.multi_turn_eval.multi_turn_utils")
    for task_id in catalog.task_ids("multi_turn")[::40]:
        task = catalog.files.task(task_id)
        long_context = "long_context" in task_id
        objects = engine.make_objects(task["classes"], task["config"], long_context=long_context)
        plain = catalog.files.task(task_id)
        for step in catalog.files.answer(task_id)["solution"]:
            calls = step.get("calls", [])
            ours = [
                engine.call(objects[catalog.files.owners[name]], name, given).text for name, given in calls
            ]
            theirs, _ = official.execute_multi_turn_func_call(
                [engine.call_text(name, given) for name, given in calls],
                plain["config"],
                plain["classes"],
                f"comparison_{task_id}",
                task_id,
                long_context,
            )
            assert ours == theirs


_LONG = int("9" * 4000)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("power", {"base": 10, "exponent": 5000}),
        ("add", {"a": _LONG * 10**300, "b": _LONG * 10**300}),
        ("multiply", {"a": _LONG, "b": _LONG}),
        ("sum_values", {"numbers": [_LONG * 10**300] * 9}),
    ],
)
def test_a_result_too_long_to_be_written_down_is_an_error_of_the_call(engine, math, method, arguments):
    assert engine.refusal(math, method, arguments) is None
    result = engine.call(math, method, arguments)
    assert result.text.startswith("Error during execution: Exceeds the limit (4300 digits)")
    assert not result.succeeded


@pytest.mark.parametrize(
    "name", ["GorillaFileSystem", "MathAPI", "TwitterAPI", "TradingBot", "TravelAPI", "VehicleControlAPI"]
)
def test_every_function_answers_whatever_it_is_called_with(engine, catalog, name):
    taken = 0
    for seed, tool in enumerate(catalog.files.tools[name]):
        target = engine.make_objects([name], {}, long_context=False)[name]
        for message in hostile_messages(seed, 60, [tool]):
            for call in parse_calls(message)[:5]:
                if call.name != tool["function"]["name"] or call.problem is not None:
                    continue
                if engine.refusal(target, call.name, call.arguments) is None:
                    assert isinstance(engine.call(target, call.name, call.arguments).text, str)
                    assert engine.call_text(call.name, call.arguments).startswith(call.name)
                    taken += 1
    assert taken > 20 * len(catalog.files.tools[name])
