"""The session's side by itself: names, words and streams, with a world that answers as it is told."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.harness.busy import ON_A_BUSY_CPU, busy_cpu

_PROGRAM = """
import json, sys, types
job = json.load(sys.stdin)
from sandbox_service.runner.untrusted import ask_world
heard = sys.stderr
def serve(request):
    print(json.dumps(request), file=heard)
    if request["op"] == "prelude":
        return {"apis": {"notes": ["read", "write"]}, "preamble": "\\nimport json\\nimport pendulum\\n",
                "moment": "2023-05-18T12:00:00", "seed": 100}
    return job["answer"]
ask_world.WORLD.connect(serve)
sys.modules["__main__"] = types.ModuleType("__main__")
from sandbox_service.environments.appworld.box.notebook import run
said = []
import os
os_write = os.write
os.write = lambda fd, data: said.append(data.decode()) or len(data)
for cell in job["cells"]:
    run(cell, job["timeout_s"], job["most"])
os_write(1, json.dumps(said).encode())
"""


def played(
    *cells: str,
    answer: object = None,
    most: int = 1000,
    timeout_s: int = 20,
    command: tuple[str, ...] = (),
) -> tuple[list[str], list[dict[str, object]]]:
    """Return the answers to each cell, and the questions to the world."""
    job = {"cells": cells, "answer": answer or {"value": None}, "most": most, "timeout_s": timeout_s}
    done = subprocess.run(
        [*command, sys.executable, "-c", _PROGRAM],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), [json.loads(line) for line in done.stderr.splitlines()]


def test_names_live_on_and_the_last_expression_is_not_shown() -> None:
    said, _ = played("x = 20\nprint('set')", "x + 1", "print(x)")
    assert said == ["set\n", "Execution successful.", "20\n"]


def test_a_failed_cell_shows_the_agents_lines_and_not_what_it_printed() -> None:
    said, _ = played("def f():\n    return 1 / 0", "print('lost')\nf()")
    assert said[1] == (
        'Execution failed. Traceback:\n  File "<python-input>", line 2, in <module>\n    f()\n'
        '  File "<python-input>", line 2, in f\n    return 1 / 0\n           ~~^~~\n'
        "ZeroDivisionError: division by zero"
    )


def test_a_call_is_a_question_with_encoded_arguments() -> None:
    said, asked = played("print(apis.notes.read(ids=[1], when=(2,)))", answer={"value": {"a": 1}})
    assert said == ["{'a': 1}\n"]
    assert asked[1] == {
        "op": "call",
        "app": "notes",
        "api": "read",
        "arguments": {"d": [["ids", {"l": [1]}], ["when", {"l": [2]}]]},
        "wrapped": True,
    }


def test_what_a_call_printed_and_raised_over_there_is_printed_and_raised_here() -> None:
    chain = [
        {"module": "builtins", "name": "KeyError", "text": "'k'", "cause": False},
        {"module": "far.away", "name": "OddError", "text": "no luck", "cause": False},
    ]
    caught = "try:\n    apis.notes.read()\nexcept Exception as error:\n    print(type(error), error)"
    said, _ = played(caught, "apis.notes.read()", answer={"raised": chain, "printed": "shown\n"})
    assert said[0] == "shown\n<class 'far.away.OddError'> no luck\n"
    assert said[1].endswith("    apis.notes.read()\nfar.away.OddError: no luck")


def test_unknown_apps_and_apis_and_positional_arguments_fail_as_in_appworld() -> None:
    said, asked = played("apis.mail.read()", "apis.notes.burn()", "apis.notes.read(1)")
    assert said[0].endswith("Exception: No app named 'mail' found.")
    assert said[1].endswith("Exception: No API named 'burn' found in the notes app.")
    assert said[2].endswith("_api_request() takes 0 positional arguments but 1 was given")
    assert [each["op"] for each in asked] == ["prelude"]


def test_packages_are_asked_for_by_the_first_cell_that_speaks_of_them() -> None:
    _, asked = played("print(1)")
    assert [each["op"] for each in asked] == ["prelude"]
    said, asked = played("print(1)", "pendulum", answer={"archive": ""})
    assert [each["op"] for each in asked] == ["prelude", "packages"]
    assert said[0] == "1\n"


def test_output_is_cut_and_standard_error_dropped() -> None:
    said, _ = played("import sys\nprint('x' * 50)\nprint('y', file=sys.stderr)", most=10)
    assert said == ["x" * 10]


COMPUTES = """
import resource
def cpu():
    used = resource.getrusage(0)
    return used.ru_utime + used.ru_stime
begun = cpu()
while cpu() < begun + {seconds}: pass
print('done')
"""


def test_a_cell_is_not_interrupted_for_waiting_for_a_processor() -> None:
    with busy_cpu():
        said, _ = played(COMPUTES.format(seconds=0.4), timeout_s=1, command=ON_A_BUSY_CPU)
    assert said == ["done\n"]


def test_a_cell_that_computes_or_sleeps_for_too_long_is_interrupted() -> None:
    late = "timed out after 1 seconds"
    said, _ = played("while True: pass", "import threading\nthreading.Event().wait(100)", timeout_s=1)
    assert all(late in each for each in said)
