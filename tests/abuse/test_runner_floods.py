"""Agent code that uses up processes, memory, files, output and time (P5, R1-R3, R5, R9-R11).

Bombs that only a user id's own limit can stop run where ids are dropped; the others run in both modes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.runner_box import is_alive, runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.runner_box import RunnerBox

ROOM_KIB = 80_000


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def drop(request: pytest.FixtureRequest) -> bool:
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    return bool(request.param)


@pytest.fixture(scope="module")
def box(drop: bool) -> Iterator[RunnerBox]:
    limits = {"open_files": 256, "processes": 40 if drop else None, "file_mib": 8, "address_space_mib": 384}
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True, limits=limits) as started:
        yield started


@pytest.fixture
def act(box: RunnerBox) -> Iterator[Any]:
    """Calls of an instance with a neighbour; both must be well and the box clean afterwards."""
    box.create("a")
    box.create("neighbour")
    box.act("neighbour", do="python", code="kept = 1")
    yield lambda **call: box.act("a", **call)
    assert box.act("a", do="control", name="kill")["value"] is None
    assert box.act("a", do="python", code="6 * 7")["output"] == "42\n"
    assert box.act("a", do="shell", command="echo fine")["output"] == "fine\n"
    assert box.act("neighbour", do="python", code="kept")["output"] == "1\n"
    assert all(process["rss_kib"] < ROOM_KIB for process in box.processes() if process["role"] != "agent")
    assert box.release("a")
    assert box.release("neighbour")
    assert all(process["role"] != "agent" for process in box.processes())


@pytest.fixture
def own_ids(drop: bool) -> None:
    if not drop:
        pytest.skip("only a user id of its own bounds how many processes an agent makes")


def test_a_fork_bomb_that_stops_on_error_meets_the_limit(act: Any, own_ids: None) -> None:
    code = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 10_000:\n"
        "        if os.fork() == 0: time.sleep(100); os._exit(0)\n"
        "        made += 1\n"
        "except BlockingIOError: pass\n"
        "made < 40"
    )
    assert act(do="python", code=code)["output"] == "True\n"


@pytest.mark.parametrize(
    "call",
    [
        {"do": "python", "code": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"},
        {"do": "shell", "command": "bomb() { bomb | bomb & }; bomb; sleep 100"},
        {
            "do": "shell",
            "command": 'bomb() { setsid bash -c "$(declare -f bomb); bomb & bomb &"; }; bomb; sleep 9',
        },
    ],
    ids=["python", "pipes", "sessions"],
)
def test_a_fork_bomb_that_never_stops_ends_with_its_call(
    act: Any, own_ids: None, call: dict[str, Any]
) -> None:
    assert act(**call, timeout_s=0.7)["exit_code"] is None


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_chain_of_short_lives_is_caught(act: Any, kind: str) -> None:
    # Each process forks the next and ends, faster than a look at the process table; ends itself after 8 s.
    chain = (
        "import os, time\n"
        "end = time.time() + 8\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while time.time() < end:\n"
        "        if os.fork(): os._exit(0)\n"
        "        open('alive', 'w').write(str(time.time()))\n"
        "    os._exit(0)\n"
        "while not os.path.exists('alive'): time.sleep(0.01)\n"
    )
    if kind == "python":
        act(do="python", code=chain)
        act(do="control", name="kill")
    else:
        act(do="shell", command=f'python3 -c "{chain}"')
    seen = act(do="read", path="alive")["value"]
    time.sleep(0.1)
    assert act(do="read", path="alive")["value"] == seen


def test_a_memory_bomb_ends_at_the_address_space_limit(act: Any) -> None:
    act(do="python", code="kept = 1")
    result = act(do="python", code="x = []\nwhile True: x.append(bytearray(1 << 24))")
    assert "MemoryError" in result["output"]
    assert act(do="python", code="x = None; kept")["output"] == "1\n"
    shell = act(do="shell", command="python3 -c \"x = 'x' * (1 << 30)\"")
    assert "MemoryError" in shell["output"]


def test_a_file_ends_at_its_limit(act: Any) -> None:
    result = act(do="shell", command="head -c 100000000 /dev/zero > big; stat -c %s big")
    assert result["output"].endswith(f"{8 << 20}\n")
    code = "with open('big2', 'wb', 0) as f:\n    while True: f.write(bytes(1 << 20))"
    assert "File too large" in act(do="python", code=code)["output"]


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("yes", "y\ny\n"),
        ("tr '\\0' x < /dev/zero", "xxxx"),
        ("cat /dev/zero", "\0\0\0"),
        ("tr '\\0' '\\377' < /dev/zero", "\ufffd\ufffd"),
        ("yes >&2", "y\n"),
    ],
    ids=["lines", "one-line", "nul", "invalid", "errors"],
)
def test_endless_output_is_cut_flagged_and_drained(act: Any, command: str, start: str) -> None:
    result = act(do="shell", command=command, timeout_s=0.4, max_output=1000)
    assert (result["timed_out"], result["truncated"]) == (True, True)
    assert result["output"].startswith(start)
    assert len(result["output"]) == 1000
    ended = act(do="shell", command=f"({command}) 2>&1 | head -c 30000000", timeout_s=20, max_output=1000)
    assert (ended["timed_out"], ended["exit_code"], ended["truncated"]) == (False, 0, True)


def test_endless_output_of_a_cell_is_cut_flagged_and_drained(act: Any) -> None:
    result = act(do="python", code="while True: print('x' * 10_000)", timeout_s=0.4, max_output=1000)
    assert (result["timed_out"], result["truncated"], result["output"]) == (True, True, "x" * 1000)
    thread = (
        "import threading, sys, os\n"
        "def shout():\n"
        "    while True:\n"
        "        try: os.write(1, b'noise' * 100)\n"
        "        except OSError: pass\n"
        "threading.Thread(target=shout, daemon=True).start()"
    )
    act(do="python", code=thread, max_output=1000)
    assert act(do="python", code="1", timeout_s=5)["exit_code"] == 0


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "sum(range(10**12))",
        "import re; re.match('(a|a)*b', 'a' * 60)",
        "import signal, time\n"
        "for n in {*signal.valid_signals()} - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
        "while True: time.sleep(9)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import os; os.read(os.pipe()[0], 1)",
        "import threading\ndef f():\n    while True: pass\n"
        "[threading.Thread(target=f).start() for _ in range(2)]\nf()",
        "__import__('sys').stdin.readline() or [0 for _ in iter(int, 1)]",
    ],
    ids=["loop", "sleep", "c-loop", "regex", "ignores", "stopped", "pipe", "threads", "stdin"],
)
def test_a_cell_that_never_ends_is_ended(act: Any, code: str) -> None:
    result = act(do="python", code=code, timeout_s=0.3)
    assert (result["timed_out"], result["exit_code"]) == (True, None)


@pytest.mark.parametrize(
    "command",
    [
        "kill -STOP $$",
        "trap '' TERM INT HUP QUIT; while :; do sleep 1; done",
        "cat",
        "nice -n 19 sleep 100 & exec sleep 100",
        "exec 0<&- 1>&- 2>&-; sleep 100",
    ],
    ids=["stopped", "ignores", "stdin", "nice", "closed"],
)
def test_a_command_that_never_ends_is_ended(act: Any, command: str) -> None:
    result = act(do="shell", command=command, timeout_s=0.3)
    # Standard input is empty, so that reading it ends at once.
    assert result["timed_out"] is (command != "cat")


def test_zombies_threads_and_descriptors_meet_their_limits(act: Any, own_ids: None) -> None:
    zombies = "import os\nfor _ in range(5000):\n    if os.fork() == 0: os._exit(0)"
    assert "BlockingIOError" in act(do="python", code=zombies)["output"]
    act(do="control", name="kill")
    threads = (
        "import threading, time\n"
        "for _ in range(9999): threading.Thread(target=time.sleep, args=(99,)).start()"
    )
    assert "can't start new thread" in act(do="python", code=threads, timeout_s=10)["output"]
    act(do="control", name="kill")
    files = (
        "import os\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\n"
        "except OSError: pass\nlen(fds) < 256"
    )
    assert act(do="python", code=files)["output"] == "True\n"


def test_limits_cannot_be_raised(act: Any, own_ids: None) -> None:
    raising = "for l in n u f c v; do ulimit -H -$l unlimited 2>/dev/null && echo raised; done; ulimit -Hu"
    assert act(do="shell", command=raising)["output"] == "40\n"


def test_huge_arguments_deep_recursion_and_odd_code_are_errors(act: Any) -> None:
    assert (
        "too long" in act(do="shell", command="/bin/true $(head -c 3000000 /dev/zero | tr '\\0' x)")["output"]
    )
    assert "RecursionError" in act(do="python", code="def f(): return f()\nf()")["output"]
    assert act(do="python", code="(" * 5000 + ")" * 5000)["exit_code"] in (1, None)
    assert act(do="python", code="x = 1\0")["exit_code"] == 1
    assert act(do="python", code="\ud800 = 1")["exit_code"] == 1
    assert act(do="python", code="")["output"] == ""
    assert act(do="shell", command="echo \0 x")["exit_code"] == 0
    assert "Exceeds the limit" in act(do="python", code="10 ** 10_000")["output"]


def test_daemons_end_with_their_command_and_before_grading(act: Any) -> None:
    daemon = (
        "import os, time\n"
        "reading, writing = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        os.closerange(0, 256)\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "os.close(writing)\n"
        "ended = os.read(reading, 1)"  # ends when the daemon has closed what it inherited
    )
    for call in (
        {"do": "shell", "command": f"nohup python3 -c '{daemon}'"},
        {"do": "python", "code": daemon},
    ):
        pid = act(**call)["output"].strip()
        assert pid.isdigit()
        if call["do"] == "python":
            act(do="control", name="kill")
        assert not is_alive(pid)
