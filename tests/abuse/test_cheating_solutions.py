"""Solutions that cheat: none may pass a single test, and none may harm the grader or its instance."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.cheats import CHEATING_TASK, CHEATS
from tests.harness.grading_traces import HEARD_BY_AN_AGENT, lay_traces, remembering
from tests.harness.runner_box import is_alive, runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.runner_box import RunnerBox

WORLD = "sandbox_service.environments.code.box.world"
HONEST = "def solve(data):\n    return sorted(data)\n"
TASK = {
    "prompt": "Sort.",
    "files": {},
    "artifact": "solution.py",
    "tested": True,
    "bare": False,
    "max_steps": 9,
    "tool_timeout_s": 10.0,
    "max_output_bytes": 1000,
}


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def box(request: pytest.FixtureRequest) -> "Iterator[RunnerBox]":
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box(WORLD, drop=request.param, agent_code=True) as started:
        yield started


def call_tool(box: "RunnerBox", instance: str, tool: str, **arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": arguments}}
    body: dict[str, Any] = {"message": {"role": "assistant", "tool_calls": [call]}}
    reply = box.request(Op.STEP, instance, meta={"deadline_s": 60}, body=body)
    assert reply.op is Op.REPLY, reply.body
    result: dict[str, Any] = json.loads(reply.body)
    return result


def write_solution(box: "RunnerBox", instance: str, source: str) -> None:
    call_tool(box, instance, "str_replace_editor", command="create", path="solution.py", file_text=source)


def evaluate(
    box: "RunnerBox", instance: str, timeout_s: float, task: dict[str, Any] = CHEATING_TASK
) -> dict[str, Any]:
    grading = {**task, "timeout_s": timeout_s}
    reply = box.request(
        Op.EVALUATE, instance, meta={"deadline_s": 110}, body={"params": {}, "grading": grading}
    )
    assert reply.op is Op.REPLY, reply.body
    verdict: dict[str, Any] = json.loads(reply.body)
    return verdict


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_cheat_passes(cheat: str, box: "RunnerBox") -> None:
    if "fork" in cheat and not box.config["drop_uids"]:
        pytest.skip("without user ids of its own only the machine's limits bound its processes")
    instance = f"cheat-{list(CHEATS).index(cheat)}"
    assert box.create(instance, TASK).op is Op.REPLY
    write_solution(box, instance, CHEATS[cheat])
    # To remove files takes several times as long as to make them, and the release waits for it.
    verdict = evaluate(box, instance, 0.3 if cheat == "fills its folder with files" else 1.0)
    assert not verdict["success"]
    assert verdict["details"]["passed"] == 0
    write_solution(box, instance, HONEST)
    assert evaluate(box, instance, 10.0)["success"]
    assert box.release(instance)


LATE = f"""
import os, threading, time
def work():
    while True:
        time.sleep(0.01)
        if os.path.exists('over'):
            open('solution.py', 'w').write({HONEST!r})
threading.Thread(target=work, daemon=True).start()
os.getpid()
"""


@pytest.mark.parametrize("end", ["submit", "steps", "the client's steps"])
def test_no_process_of_the_agent_outlives_the_step_that_ends_the_episode(box: "RunnerBox", end: str) -> None:
    instance = f"late-{end}"
    limit = 2 if end == "the client's steps" else 9
    box.create(instance, {**TASK, "max_steps": 2 if end == "steps" else 9}, max_steps=limit)
    (told,) = call_tool(box, instance, "python", code=LATE)["observation"]["messages"]
    assert is_alive(told["content"])
    last = call_tool(box, instance, *(["submit"] if end == "submit" else ["none"]))
    assert last["terminated"] or last["truncated"]
    assert not is_alive(told["content"])
    box.request(Op.FILE_WRITE, instance, meta={"path": "over"})
    verdict = evaluate(box, instance, 10)
    assert (verdict["score"], verdict["details"]["reason"]) == (0, "missing")
    assert box.release(instance)


def test_what_lies_in_the_workspace_after_the_end_is_not_graded(box: "RunnerBox") -> None:
    box.create("sealed", TASK)
    write_solution(box, "sealed", "def solve(data):\n    return data\n")
    call_tool(box, "sealed", "submit")
    first = evaluate(box, "sealed", 10)
    written = box.request(Op.FILE_WRITE, "sealed", meta={"path": "solution.py"}, body=HONEST.encode())
    assert written.op is Op.REPLY
    assert [evaluate(box, "sealed", 10) for _ in range(2)] == [first] * 2
    assert first["score"] < 1
    assert box.release("sealed")


VFORK = """
import ctypes, os, time
os.mkfifo('pipe')
if os.fork() == 0:
    libc = ctypes.CDLL(None)
    actions, pid = ctypes.create_string_buffer(512), ctypes.c_int()
    words = (ctypes.c_char_p * 2)(b'true', None)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b'pipe', os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(pid), b'/bin/true', actions, None, words, words)
    os._exit(0)
time.sleep(0.2)
"""
SEND_DESCRIPTORS = """
import array, os, socket
end = socket.socket(fileno=os.dup(3))
rights = array.array('i', [os.open('/dev/null', os.O_RDONLY) for _ in range(4)]).tobytes()
end.sendmsg([b'\\xff' * 8], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""


def test_an_agent_that_cannot_take_a_stop_gets_its_score_and_goes_on(box: "RunnerBox") -> None:
    box.create("vfork", TASK)
    call_tool(box, "vfork", "python", code=VFORK)
    assert evaluate(box, "vfork", 10)["score"] == 0
    assert "42" in str(call_tool(box, "vfork", "python", code="6 * 7")["observation"])
    assert box.release("vfork")


def test_packets_with_descriptors_cost_the_session_and_nothing_else(box: "RunnerBox") -> None:
    box.create("packets", {**TASK, "max_steps": 1000})
    held = []
    for _ in range(30):
        call_tool(box, "packets", "python", code=SEND_DESCRIPTORS)
        (worker,) = [process["pid"] for process in box.processes() if process["role"] == "worker"]
        held.append(len(list(Path(f"/proc/{worker}/fd").iterdir())))
    assert held[-1] <= held[0]
    assert box.release("packets")


def test_nothing_that_a_solution_does_reaches_the_next_grading_or_the_agent(box: "RunnerBox") -> None:
    if not box.config["drop_uids"]:
        pytest.skip("without user ids of its own a box is no boundary")
    scratch = box.config["scratch"][0]
    box.create("memory", TASK)
    (told,) = call_tool(box, "memory", "python", code=lay_traces(scratch))["observation"]["messages"]
    write_solution(box, "memory", remembering(scratch, told["content"]))
    task = {**CHEATING_TASK, "tests": ["assert solve([1]) == []"] * 2}
    for _ in range(3):
        verdict = evaluate(box, "memory", 10, task)
        assert verdict["score"] == 1, verdict
    (heard,) = call_tool(box, "memory", "python", code=HEARD_BY_AN_AGENT)["observation"]["messages"]
    assert heard["content"] == "[]"
    call_tool(box, "memory", "submit")
    assert evaluate(box, "memory", 10, task)["score"] == 1
    assert box.release("memory")


def test_an_honest_solution_that_leaves_temporary_files_costs_no_box(box: "RunnerBox") -> None:
    scratch = box.config["scratch"][0]
    source = (
        "import tempfile\n"
        "def solve(data):\n"
        f"    for folder in (None, {scratch!r}):\n"
        "        with tempfile.NamedTemporaryFile('w', dir=folder, delete=False) as file:\n"
        "            file.write(str(data))\n"
        "    return sorted(data)\n"
    )
    for name in ("first", "second"):
        box.create(name, TASK)
        write_solution(box, name, source)
        call_tool(box, name, "submit")
        assert evaluate(box, name, 10)["success"]
        assert box.release(name)
