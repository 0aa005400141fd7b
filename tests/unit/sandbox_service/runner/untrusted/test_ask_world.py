"""Cells that ask their world while they run, and what comes of asking wrongly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.untrusted.ask_world import WorldConnection

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox

ASK = "from sandbox_service.runner.untrusted.ask_world import ask\n"
PACKET = (
    "import json, os, struct, sys\n"
    "def packet(**message):\n"
    "    text = json.dumps(message).encode()\n"
    "    return struct.pack('>II', len(text), 0) + text\n"
)


@pytest.fixture
def act(agent_box: RunnerBox, instance: str) -> Any:
    """Calls of the instance's agent."""
    return lambda **call: agent_box.act(instance, **call)


def serve(act: Any, code: str, **more: Any) -> dict[str, Any]:
    return act(do="serve", code=ASK + code, **more)


def test_a_cell_gets_the_answer_to_each_of_its_questions(act: Any) -> None:
    result = serve(act, "for n in range(3): print(ask({'n': n, 'text': 'é\\n'}))")
    lines = result["output"].splitlines()
    assert lines == [str({"asked": {"n": n, "text": "é\n"}, "before": n, "padding": ""}) for n in range(3)]
    assert result["questions"] == 3


def test_output_and_questions_come_in_any_order(act: Any) -> None:
    code = "for n in range(5):\n    print('x' * 50000)\n    ask({'n': n})\nprint('end')"
    result = serve(act, code, max_output=1_000_000)
    assert result["output"] == ("x" * 50000 + "\n") * 5 + "end\n"


def test_a_megabyte_goes_both_ways(act: Any) -> None:
    code = "len(ask({'text': 'y' * 1_000_000, 'wanted': 2_000_000})['padding'])"
    assert serve(act, code)["output"] == "2000000\n"


@pytest.mark.parametrize("request_", ["[1]", "None", "'text'", "1", "1.5", "True"])
def test_a_question_that_is_no_object_is_refused_at_once(act: Any, request_: str) -> None:
    result = serve(act, f"ask({request_})", timeout_s=15)
    assert not result["timed_out"]
    assert "TypeError: a question is a dictionary" in result["output"]
    assert result["questions"] == 0
    assert serve(act, "print(ask({'n': 1})['asked'])")["output"] == "{'n': 1}\n"


def test_a_forged_question_that_is_no_object_is_answered_too(act: Any) -> None:
    code = PACKET + "import select\nos.write(3, packet(kind='question', question=1, cell=1, request=None))\n"
    code += "print(bool(select.select([3], [], [], 10)[0]))"
    assert serve(act, code)["output"] == "True\n"
    assert serve(act, "print(ask({'n': 1})['asked'])")["output"] == "{'n': 1}\n"


def test_nobody_answers_where_the_world_does_not_serve(act: Any) -> None:
    serve(act, "ask({})")
    result = act(do="python", code=ASK + "ask({})")
    assert result["output"].endswith("RuntimeError: the world answers no questions here\n")
    assert act(do="python", code="'alive'")["output"] == "'alive'\n"


def test_an_alarm_during_a_question_comes_after_its_answer(act: Any) -> None:
    code = (
        "import signal\n"
        "class Late(Exception): pass\n"
        "def late(*_): raise Late\n"
        "signal.signal(signal.SIGALRM, late)\n"
        "seen = 0\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n"
        "try:\n"
        "    for n in range(200):\n"
        "        try: answer = ask({'n': n, 'wanted': 20000})\n"
        "        except Late: seen += 1\n"
        "        else: assert answer['asked']['n'] == n, answer\n"
        "except Late: pass  # between two questions\n"
        "finally: signal.setitimer(signal.ITIMER_REAL, 0)\n"
    )
    serve(act, code)
    assert serve(act, "print(ask({'n': 'last'})['asked'])")["output"] == "{'n': 'last'}\n"


def test_threads_of_a_cell_get_their_own_answers(act: Any) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    got = list(pool.map(lambda n: ask({'n': n})['asked']['n'], range(40)))\n"
        "print(got == list(range(40)))"
    )
    assert serve(act, code)["output"] == "True\n"


@pytest.mark.parametrize(
    "attack",
    [
        "os.write(3, packet(kind='question', question=1, cell=99, request={}))",
        "os.write(3, packet(kind='question', question='1', cell=NUMBER, request={}))",
        "os.write(3, packet(kind='question', question=1, cell=NUMBER, request=[1]))",
        "os.write(3, packet(kind='question', question=1, cell=NUMBER))",
        "os.write(3, packet(kind='run_cell', number=NUMBER, serves=True))",
        "os.write(3, packet(kind=[], question=1, cell=NUMBER, request={}))",
    ],
    ids=["another-cell", "no-number", "no-object", "no-request", "a-request", "no-kind"],
)
def test_a_question_that_is_none_is_no_harm(act: Any, attack: str) -> None:
    # The number of a cell can be guessed: cells are counted.
    code = PACKET + attack.replace("NUMBER", "1") + "\nprint('sent')"
    result = serve(act, code)
    assert result["exit_code"] in (0, 1, None)
    # A cell that says that it is over while it runs has its last words in the next one's output.
    assert serve(act, "print(ask({'n': 1})['asked'])")["output"].endswith("{'n': 1}\n")


@pytest.mark.parametrize(
    "attack",
    [
        "os.write(3, struct.pack('>II', 1 << 30, 0))",
        "os.write(3, b'not a packet at all')",
        "os.write(3, struct.pack('>II', 4, 0) + b'nul')",
        "text = b'[' * 100000\nos.write(3, struct.pack('>II', len(text), 0) + text)",
        "os.write(3, packet(kind='question', question=1, cell=1, request={'wanted': 7_000_000}) * 50)",
    ],
    ids=["too-much", "nonsense", "half", "deep", "not-fetched"],
)
def test_a_session_that_breaks_the_line_is_ended_by_its_deadline(act: Any, attack: str) -> None:
    result = serve(act, PACKET + attack + "\nimport time\ntime.sleep(30)", timeout_s=1)
    assert result["exit_code"] is None
    assert serve(act, "print(ask({'n': 1})['asked'])")["output"] == "{'n': 1}\n"


def test_an_endless_stream_of_questions_ends_at_the_deadline(act: Any) -> None:
    result = serve(act, "while True: ask({})", timeout_s=1, wall_timeout_s=50)
    assert result["timed_out"]
    assert result["questions"] > 0


def test_questions_go_to_what_is_connected() -> None:
    world = WorldConnection()
    with pytest.raises(RuntimeError, match="no questions"):
        world.ask({})
    world.connect(lambda request: {"heard": json.dumps(request)})
    assert world.ask({"a": 1}) == {"heard": '{"a": 1}'}
    world.connect(None)
    with pytest.raises(RuntimeError, match="no questions"):
        world.ask({})
