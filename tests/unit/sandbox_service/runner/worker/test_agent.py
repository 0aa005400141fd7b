"""Cells, commands, freezing and killing, as a world sees them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.messages.control import Done, FreezeAgent, KillAgent, Started
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode
from tests.harness.runner_box import is_alive
from tests.harness.stub_launcher import StubLauncher, agent_of
from tests.harness.waiting import wait_until

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox


@pytest.fixture
def act(agent_box: RunnerBox, instance: str) -> Any:
    """Calls of the instance's agent."""
    return lambda **call: agent_box.act(instance, **call)


def test_a_session_keeps_its_names_and_echoes_the_last_expression(act: Any) -> None:
    assert act(do="python", code="x = 20\nprint('set')")["output"] == "set\n"
    result = act(do="python", code="x += 1\nx * 2")
    assert (result["output"], result["exit_code"]) == ("42\n", 0)
    assert act(do="python", code="_ + 1")["output"] == "43\n"
    assert act(do="python", code="for i in range(2): i\nNone")["output"] == ""


def test_an_exception_is_output_with_the_cells_own_lines(act: Any) -> None:
    act(do="python", code="def f():\n    return 1 / 0")
    result = act(do="python", code="print('before')\nf()")
    assert result["exit_code"] == 1
    assert result["output"].startswith("before\nTraceback (most recent call last):\n")
    assert 'File "<cell 1>", line 2, in f\n    return 1 / 0' in result["output"]
    assert "session.py" not in result["output"]
    assert result["output"].endswith("ZeroDivisionError: division by zero\n")


def test_a_syntax_error_is_output(act: Any) -> None:
    result = act(do="python", code="x = (\n1 +")
    assert result["exit_code"] == 1
    assert "SyntaxError" in result["output"]


def test_leaving_by_exit_keeps_the_session(act: Any) -> None:
    act(do="python", code="kept = 1")
    assert act(do="python", code="raise SystemExit(3)")["exit_code"] == 1
    assert act(do="python", code="import sys; sys.exit()")["exit_code"] == 0
    assert act(do="python", code="kept")["output"] == "1\n"


def test_standard_error_and_children_write_into_the_same_output(act: Any) -> None:
    code = "import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nos.system('echo c')\nprint('d')"
    assert act(do="python", code=code)["output"] == "a\nb\nc\nd\n"


def test_a_module_in_the_workspace_can_be_imported(act: Any) -> None:
    act(do="write", path="mine.py", text="VALUE = 7")
    assert act(do="python", code="import mine; mine.VALUE")["output"] == "7\n"


def test_a_cell_past_its_deadline_is_ended_with_all_it_started(act: Any) -> None:
    act(do="python", code="kept = 1")
    code = (
        "import subprocess, time\n"
        "p = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print(p.pid, flush=True)\n"
        "while True: pass"
    )
    result = act(do="python", code=code, timeout_s=0.5)
    assert (result["timed_out"], result["exit_code"], result["died"]) == (True, None, False)
    assert not is_alive(result["output"])
    assert "NameError" in act(do="python", code="kept")["output"]


def test_a_session_that_dies_says_so_and_the_next_cell_gets_a_new_one(act: Any) -> None:
    result = act(do="python", code="import os\nprint('last words', flush=True)\nos._exit(0)")
    assert (result["output"], result["died"], result["exit_code"]) == ("last words\n", True, None)
    assert act(do="python", code="1 + 1")["output"] == "2\n"


def test_output_past_the_cap_is_cut_and_flagged(act: Any) -> None:
    result = act(do="python", code="print('x' * 1_000_000)", max_output=1000)
    assert (result["output"], result["truncated"]) == ("x" * 1000, True)
    assert not act(do="python", code="print('x' * 999)", max_output=1000)["truncated"]


def test_a_command_has_an_exit_code_and_both_streams(act: Any) -> None:
    result = act(do="shell", command="echo out; echo err >&2; exit 3")
    assert (result["output"], result["exit_code"]) == ("out\nerr\n", 3)
    assert result["duration_s"] > 0


def test_commands_run_in_the_workspace_with_an_environment_of_their_own(act: Any) -> None:
    workspace = act(do="workspace")["workspace"]
    output = act(do="shell", command="pwd; env | sort | cut -d= -f1 | tr '\\n' ' '")["output"]
    names = output.split("\n")[1].split()
    assert output.startswith(workspace + "\n")
    assert set(names) <= {"HOME", "LANG", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "_"}


def test_a_command_longer_than_an_argument_may_be_runs(act: Any) -> None:
    filler = "\n".join(["# filler"] * 40_000)
    assert act(do="shell", command=f"{filler}\necho done")["output"] == "done\n"


def test_nothing_of_a_command_is_alive_afterwards(act: Any) -> None:
    command = (
        "sleep 1000 & echo $!\n"
        "setsid sleep 1000 & echo $!\n"
        "python3 -c 'import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "print(os.getpid(), flush=True); os.close(1); os.close(2); time.sleep(1000)'\n"
        "sleep 0.2"
    )
    result = act(do="shell", command=command)
    pids = result["output"].split()
    assert len(pids) == 3
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_command_leaves_the_session_alone(act: Any) -> None:
    act(do="python", code="import subprocess; p = subprocess.Popen(['sleep', '1000']); kept = 5")
    act(do="shell", command="sleep 1000 & true")
    assert act(do="python", code="kept, p.poll()")["output"] == "(5, None)\n"


def test_a_command_past_its_deadline_is_ended_although_it_ignores_signals(act: Any) -> None:
    result = act(
        do="shell", command="trap '' TERM INT HUP; echo $$; while :; do sleep 1; done", timeout_s=0.4
    )
    assert (result["timed_out"], result["exit_code"]) == (True, None)
    assert not is_alive(result["output"])


def test_a_command_killed_by_a_signal_has_died(act: Any) -> None:
    result = act(do="shell", command="kill -SEGV $$")
    assert (result["died"], result["exit_code"], result["timed_out"]) == (True, None, False)


def test_killing_the_agent_leaves_no_process_and_keeps_the_workspace(act: Any) -> None:
    act(do="write", path="kept.txt", text="here")
    pid = act(
        do="python", code="import os, subprocess; p = subprocess.Popen(['sleep', '99']); p.pid, os.getpid()"
    )
    assert act(do="control", name="kill") == {"value": None, "steps": 3}
    assert not [each for each in eval(pid["output"]) if is_alive(each)]
    assert act(do="read", path="kept.txt")["value"] == "here"
    assert act(do="python", code="'p' in globals()")["output"] == "False\n"


def test_a_frozen_agent_stands_still_until_it_is_thawed(act: Any) -> None:
    act(do="write", path="beat", text="0")
    code = (
        "import os, threading, time\n"
        "def beat():\n"
        "    n = 0\n"
        "    while True:\n"
        "        n += 1; open('next', 'w').write(str(n)); os.replace('next', 'beat'); time.sleep(0.005)\n"
        "threading.Thread(target=beat, daemon=True).start()"
    )
    act(do="python", code=code)
    act(do="control", name="freeze")
    before = act(do="read", path="beat")["value"]
    time.sleep(0.1)
    assert act(do="read", path="beat")["value"] == before
    act(do="control", name="thaw")
    wait_until(lambda: act(do="read", path="beat")["value"] != before)
    assert act(do="python", code="1")["exit_code"] == 0


VFORK = """
import ctypes, os, threading, time
os.mkfifo('pipe')
def spawn():
    libc = ctypes.CDLL(None)
    actions, pid = ctypes.create_string_buffer(512), ctypes.c_int()
    words = (ctypes.c_char_p * 2)(b'true', None)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b'pipe', os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(pid), b'/bin/true', actions, None, words, words)
"""


@pytest.mark.parametrize(
    "start",
    ["threading.Thread(target=spawn, daemon=True).start()", "if os.fork() == 0: spawn(); os._exit(0)"],
    ids=["thread", "process"],
)
def test_an_agent_that_waits_for_a_vforked_child_is_frozen_and_thawed(act: Any, start: str) -> None:
    # The child opens a pipe that has no writer. Until it has its program, the parent waits in the kernel,
    # where no signal reaches it.
    act(do="python", code=f"{VFORK}\n{start}\ntime.sleep(0.2)")
    assert act(do="control", name="freeze")["value"] is None
    assert act(do="control", name="thaw")["value"] is None
    assert act(do="python", code="6 * 7", timeout_s=10)["output"] == "42\n"
    done = act(do="shell", command="timeout 5 sh -c ': > pipe' && echo woken")
    assert (done["exit_code"], done["output"]) == (0, "woken\n")


def test_agent_processes_are_the_first_victims_when_memory_runs_out(act: Any) -> None:
    assert act(do="python", code="open('/proc/self/oom_score_adj').read()")["output"] == "'1000\\n'\n"
    assert act(do="shell", command="cat /proc/self/oom_score_adj")["output"] == "1000\n"


def test_an_agent_holds_no_descriptor_but_its_own(act: Any) -> None:
    code = "import os\n[os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in range(4)]"
    assert act(do="python", code=code)["output"] == "['/dev/null', 'pipe', 'pipe', 'socket']\n"
    code = "import os; print([n for n in range(3, 300) if os.path.exists(f'/proc/self/fd/{n}')])"
    assert act(do="shell", command=f'exec python3 -c "{code}"')["output"] == "[]\n"


def test_each_instance_has_an_own_user_id_where_ids_are_dropped(
    agent_box: RunnerBox, act: Any, drop: bool
) -> None:
    agent_box.create("second")
    uids = {
        act(do="shell", command="id -u")["output"],
        agent_box.act("second", do="shell", command="id -u")["output"],
    }
    assert len(uids) == (2 if drop else 1)
    assert (f"{os.geteuid()}\n" in uids) is not drop
    assert agent_box.release("second")


@pytest.fixture
def launcher() -> StubLauncher:
    return StubLauncher()


def test_a_late_file_helper_is_a_late_machine_and_the_agent_goes_on(launcher: StubLauncher) -> None:
    with agent_of(launcher) as agent:
        for _ in range(2):
            # Whether the machine explains it depends on what else runs here.
            with pytest.raises((TimeoutError, WorldError)) as raised:
                agent.remove_files(["/workspace"], 0.05)
            if isinstance(raised.value, WorldError):
                assert raised.value.code is BoxErrorCode.STEP_TIMEOUT
        agent.freeze()
    assert launcher.asked == ["start_files", "freeze_agent", "thaw_agent"] * 2 + ["freeze_agent"]


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({FreezeAgent.kind: Started(4711, None)}, ValueError),
        ({FreezeAgent.kind: Done(False), KillAgent.kind: Done(False)}, OSError),
    ],
    ids=["an answer that makes no sense", "an agent that can be neither stopped nor killed"],
)
def test_an_agent_that_should_stand_still_is_thawed_whatever_goes_wrong(
    launcher: StubLauncher, answers: Any, error: type[Exception]
) -> None:
    launcher.answers |= answers
    with agent_of(launcher) as agent, pytest.raises(error), agent.still():
        pytest.fail("the agent does not stand still")
    assert launcher.asked[-1] == "thaw_agent"
