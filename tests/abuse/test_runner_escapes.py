"""Attacks of agent code on the runner: forged answers, our sockets, processes, memory (P1, P2, P4)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.wire.frames import Frame, Op
from tests.harness.runner_box import is_alive, runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.runner_box import RunnerBox

SECRET = "ground-truth-7f3a9c"
CONTROL = "CONTROL-that-is-in-memory"


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def drop(request: pytest.FixtureRequest) -> bool:
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    return bool(request.param)


@pytest.fixture(scope="module")
def box(drop: bool) -> Iterator[RunnerBox]:
    limits = {"open_files": 256, "processes": 48 if drop else None, "file_mib": 16, "address_space_mib": 1024}
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True, limits=limits) as started:
        yield started


@pytest.fixture
def act(box: RunnerBox) -> Iterator[Any]:
    """Calls of an instance whose task holds a secret; the box must be whole and clean afterwards."""
    box.create("a", {"answer": SECRET})
    ours = {p["pid"]: p["role"] for p in box.processes() if p["role"] != "agent"}
    yield lambda **call: box.act("a", **call)
    assert box.act("a", do="python", code="6 * 7")["output"] == "42\n"
    assert box.act("a", do="shell", command="echo fine")["output"] == "fine\n"
    assert {p["pid"]: p["role"] for p in box.processes() if p["role"] != "agent"} == ours
    assert box.release("a")


@pytest.fixture
def own_ids(drop: bool) -> None:
    """Attacks that would reach the whole machine need user ids that keep them in the box."""
    if not drop:
        pytest.skip("without user ids of its own a box is no boundary")


def test_an_answer_forged_on_every_descriptor_is_never_an_answer_of_ours(act: Any, box: RunnerBox) -> None:
    frame = Frame(Op.REPLY, 99, "a", {"reward": 1.0, "terminated": True, "truncated": False}, b"{}").encode()
    text = b'{"kind":"cell_done","number":1,"ok":true}'
    packet = len(text).to_bytes(4, "big") + bytes(4) + text
    code = (
        "import os\n"
        "for n in range(256):\n"
        f"    for data in ({frame!r}, {packet!r} * 3):\n"
        "        try: os.write(n, data)\n"
        "        except OSError: pass\n"
    )
    for way in ("python", "shell"):
        text = code if way == "python" else f"python3 - <<'END'\n{code}END"
        reply = box.step("a", {"do": way, "code" if way == "python" else "command": text})
        assert (reply.meta["reward"], reply.meta["terminated"]) == (0.0, False)


def test_a_cell_that_answers_for_itself_confuses_no_later_cell(act: Any) -> None:
    text = json.dumps({"kind": "cell_done", "ok": True, "number": 1}).encode()
    packet = len(text).to_bytes(4, "big") + bytes(4) + text
    act(do="python", code=f"import os, time\nos.write(3, {packet!r} * 2)\ntime.sleep(0.2)\nprint('late')")
    assert act(do="python", code="'second'")["output"].endswith("'second'\n")
    assert act(do="python", code="'third'")["output"] == "'third'\n"


def test_the_runners_socket_can_be_neither_used_nor_replaced(act: Any, box: RunnerBox, own_ids: None) -> None:
    code = (
        "import os, socket\n"
        "def tried(what):\n"
        "    try: what()\n"
        "    except OSError as error: return type(error).__name__\n"
        f"path = {box.path!r}\n"
        "tried(lambda: socket.socket(socket.AF_UNIX).connect(path)), tried(lambda: os.unlink(path)), "
        "tried(lambda: os.rename(path, path + '2')), tried(lambda: socket.socket(socket.AF_UNIX).bind(path))"
    )
    denied = "'PermissionError'"
    assert act(do="python", code=code)["output"] == f"({denied}, {denied}, {denied}, 'OSError')\n"


def test_our_processes_can_be_neither_read_nor_signalled(act: Any, box: RunnerBox, own_ids: None) -> None:
    pids = [process["pid"] for process in box.processes() if process["role"] != "agent"]
    code = (
        "import os\n"
        "open_, signalled, links = [], [], ('cwd', 'root', 'exe', 'fd/0')\n"
        f"for pid in {pids}:\n"
        "    for name in ('mem', 'environ', 'maps', 'fd', 'cwd', 'root', 'exe', 'fd/0', 'stack'):\n"
        "        try:\n"
        "            path = f'/proc/{pid}/{name}'\n"
        "            look = os.listdir if name == 'fd' else os.readlink if name in links else open\n"
        "            look(path)\n"
        "            open_.append((pid, name))\n"
        "        except OSError: pass\n"
        "    for number in (0, 9, 15, 19):\n"
        "        try: os.kill(pid, number); signalled.append(pid)\n"
        "        except PermissionError: pass\n"
        "open_, signalled"
    )
    assert act(do="python", code=code)["output"] == "([], [])\n"


def test_no_memory_of_an_agents_process_holds_a_task_or_the_token(act: Any, box: RunnerBox) -> None:
    box.request(Op.EVALUATE, "a", body={"params": {}, "grading": {"score": 0, "key": SECRET}})
    # Only digests of the secrets come in, so that the search does not find itself.
    wanted = (SECRET, box.token, CONTROL)
    digests = [hashlib.sha256(each.encode()).hexdigest() for each in wanted]
    lengths = [len(each) for each in wanted]
    code = (
        "import gc, hashlib, re\n"
        "here = 'CONTROL-' + 'that-is-in-memory'\n"
        "def text():\n"
        "    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as mem:\n"
        "        for line in maps:\n"
        "            place, rights, *_ = line.split()\n"
        "            start, end = (int(part, 16) for part in place.split('-'))\n"
        "            if 'r' not in rights or end > 1 << 63: continue\n"
        "            try:\n"
        "                mem.seek(start); yield mem.read(end - start)\n"
        "            except (OSError, ValueError): pass\n"
        "found = set()\n"
        f"for length, digest in zip({lengths}, {digests}):\n"
        "    pattern = re.compile(b'(?=([A-Za-z0-9-]{%d}))' % length)\n"
        "    for data in text():\n"
        "        for match in pattern.finditer(data):\n"
        "            if hashlib.sha256(match[1]).hexdigest() == digest:\n"
        "                found.add(length); break\n"
        "names = ('Server', 'WorldEpisode', 'Worker')\n"
        f"len([o for o in gc.get_objects() if type(o).__name__ in names]), found == {{{lengths[2]}}}"
    )
    assert act(do="python", code=code)["output"] == "(0, True)\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(0)",
        "import os; os._exit(77)",
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os; os.closerange(0, 1024)",
        "import sys; sys.setrecursionlimit(10**8)\na = []\nfor _ in range(10**6): a = [a]\nrepr(a)",
        "import os; os.execvp('true', ['true'])",
    ],
    ids=["exit", "exit-77", "segfault", "abort", "kill", "close", "recursion", "exec"],
)
def test_a_session_that_destroys_itself_costs_only_itself(act: Any, code: str) -> None:
    result = act(do="python", code=code, timeout_s=20)
    assert result["died"] is True
    assert result["timed_out"] is False


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout = None",
        "import sys; sys.stdout.close()",
        "import sys\nclass Bad:\n    def __getattr__(self, name): raise SystemExit\nsys.stdout = Bad()",
        "import os; os.close(0); os.close(1); os.close(2)",
        "import builtins; builtins.print = builtins.repr = None",
        "import signal, os\ndef h(*_): raise KeyboardInterrupt\nsignal.signal(signal.SIGALRM, h)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\nimport time; time.sleep(1)",
        "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
        "raise BaseExceptionGroup('g', [KeyboardInterrupt(), SystemExit()])",
        "import sys; sys.displayhook = None; sys.excepthook = None; 5",
        "import linecache, traceback; linecache.cache = None; traceback.format_exception = None; 1 / 0",
        "import gc; [o.clear() for o in gc.get_objects() if type(o) is dict and 'act' in o]",
        "globals().clear()",
        "import sys; sys.modules['sandbox_service.runner.io.packets'].send_packet = None",
    ],
    ids=[
        *("none", "closed", "bad-stream", "fds", "builtins", "timer", "str", "group"),
        *("hooks", "tools", "gc", "globals", "patch"),
    ],
)
def test_a_session_survives_what_a_cell_does_to_its_surroundings(act: Any, code: str) -> None:
    act(do="python", code="kept = 1")
    result = act(do="python", code=code, timeout_s=20)
    assert (result["died"], result["timed_out"]) == (False, False)
    act(do="python", code="import signal; signal.setitimer(signal.ITIMER_REAL, 0)")
    act(do="python", code="import builtins, sys; sys.displayhook = sys.__displayhook__")


def test_killing_everybody_kills_nobody_else(act: Any, box: RunnerBox, own_ids: None) -> None:
    box.create("neighbour")
    box.act("neighbour", do="python", code="kept = 1")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        act(do="python", code=f"import os; os.kill(-1, {int(number)})", timeout_s=5)
        act(do="shell", command=f"kill -{int(number)} -1; kill -{int(number)} 1; kill -{int(number)} $PPID")
    # It may have stopped itself.
    act(do="control", name="kill")
    assert box.act("neighbour", do="python", code="kept")["output"] == "1\n"
    assert box.release("neighbour")


def test_an_agent_that_keeps_killing_everybody_is_ended_all_the_same(act: Any, own_ids: None) -> None:
    loop = "import os\nif os.fork() == 0:\n    while True:\n        os.kill(-1, 9)"
    act(do="python", code=loop, timeout_s=5)
    killers = "import os, signal\nwhile True:\n    try: os.kill(-1, 9)\n    except ProcessLookupError: pass"
    result = act(do="shell", command=f'python3 -c "{killers}" & echo $!; sleep 0.1', timeout_s=5)
    assert not [pid for pid in result["output"].split() if is_alive(pid)]
    assert act(do="control", name="kill")["value"] is None
    assert act(do="write", path="still", text="x")["value"] is None


def test_identity_cannot_be_changed_back(act: Any, own_ids: None) -> None:
    code = (
        "import os\n"
        "def tried(what, *arguments):\n"
        "    try: what(*arguments)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "[tried(os.setuid, 0), tried(os.setgid, 0), tried(os.setgroups, [0]), tried(os.setresuid, 0, 0, 0),\n"
        " tried(os.chroot, '/'), os.getgroups(), open('/proc/self/status').read().split('NoNewPrivs:')[1][1]]"
    )
    assert act(do="python", code=code)["output"] == "[False, False, False, False, False, [], '1']\n"


def test_no_candidate_reaches_the_files_or_processes_of_the_agent(act: Any, own_ids: None) -> None:
    act(do="write", path="solution", text=SECRET)
    pid = act(do="python", code="import os; os.getpid()")["output"].strip()
    workspace = act(do="workspace")["workspace"]
    act(do="candidate", entry="tests.fakes.agent_world:double")
    for attempt in (f"open('{workspace}/solution')", f"os.listdir('{workspace}')", f"os.kill({pid}, 0)"):
        assert act(do="request", message={"run": attempt}, timeout_s=10)["raised"] == "EOFError"
        act(do="close")
        act(do="candidate", entry="tests.fakes.agent_world:double")
    act(do="close")


def test_what_an_agent_left_running_cannot_reach_a_candidate(act: Any, own_ids: None) -> None:
    code = (
        "import os, threading, time\n"
        "def watch():\n"
        "    while True:\n"
        "        for name in os.listdir('/proc'):\n"
        "            if name.isdigit() and int(name) != os.getpid():\n"
        "                try: os.kill(int(name), 9)\n"
        "                except OSError: pass\n"
        "        time.sleep(0.001)\n"
        "threading.Thread(target=watch, daemon=True).start()"
    )
    act(do="python", code=code)
    act(do="candidate", entry="tests.fakes.agent_world:double")
    for number in range(20):
        assert act(do="request", message={"n": number})["value"] == {"n": 2 * number}
    assert act(do="close")["value"] is None
    assert act(do="write", path="f", text="x")["value"] is None
    assert act(do="read", path="f")["value"] == "x"
    assert act(do="control", name="kill")["value"] is None


def test_the_environment_of_the_service_is_not_in_the_box(act: Any) -> None:
    assert os.environ
    output = act(do="shell", command="cat /proc/self/environ | tr '\\0' '\\n' | cut -d= -f1")["output"]
    assert set(output.split()) <= {"HOME", "LANG", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "_"}
    session = act(do="python", code="open('/proc/self/environ', 'rb').read()")["output"]
    assert session == "b''\n"
