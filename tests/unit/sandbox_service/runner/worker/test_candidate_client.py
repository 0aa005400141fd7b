"""Candidate processes, in which graders run what agents wrote."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.runner_box import ROOT

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox

ENTRY = "tests.fakes.agent_world:double"


@pytest.fixture
def act(agent_box: RunnerBox, instance: str) -> Any:
    """Calls of the instance's agent."""
    return lambda **call: agent_box.act(instance, **call)


def run(act: Any, code: str) -> str:
    return str(act(do="request", message={"run": code})["value"]["result"])


def test_a_candidate_answers_requests_until_it_is_closed(act: Any) -> None:
    act(do="candidate", entry=ENTRY)
    assert act(do="request", message={"n": 4})["value"] == {"n": 8}
    assert act(do="request", message={"n": 5})["value"] == {"n": 10}
    assert act(do="close")["value"] is None
    assert act(do="close")["value"] is None


def test_a_candidate_starts_in_an_empty_directory_of_its_own(act: Any) -> None:
    act(do="write", path="answer.py", text="secret")
    workspace = act(do="workspace")["workspace"]
    directories: list[str] = []
    for _ in range(2):
        act(do="candidate", entry=ENTRY)
        assert run(act, "os.listdir('.')") == "[]"
        directory = run(act, "os.getcwd()")
        assert directory.rpartition("/")[0] == workspace.rpartition("/")[0]
        assert run(act, "os.environ['TMPDIR']") == directory
        directories.append(directory)
        run(act, "open('litter', 'w').write('x')")
        assert act(do="close")["value"] is None
    assert len(set(directories)) == 2


def test_a_candidate_has_a_user_id_that_the_agent_has_not(act: Any, drop: bool) -> None:
    act(do="candidate", entry=ENTRY)
    own = act(do="shell", command="id -u")["output"].strip()
    assert (run(act, "os.getresuid()") == f"({own}, {own}, {own})") is not drop
    act(do="close")


def test_each_candidate_has_a_user_id_of_its_own(act: Any, drop: bool) -> None:
    seen = set()
    for _ in range(3):
        act(do="candidate", entry=ENTRY)
        seen.add(run(act, "os.getuid()"))
        act(do="close")
    assert len(seen) == (3 if drop else 1)


def test_what_a_candidate_leaves_in_shared_folders_goes_with_it(
    act: Any, agent_box: RunnerBox, drop: bool
) -> None:
    if not drop:
        pytest.skip("without user ids nothing tells whose a file in a shared folder is")
    scratch = agent_box.config["scratch"][0]
    act(do="candidate", entry=ENTRY)
    run(act, f"os.makedirs('{scratch}/deep/er')")
    run(act, f"open('{scratch}/deep/er/litter', 'w').write('x')")
    run(act, f"os.mkfifo('{scratch}/pipe')")
    act(do="close")
    assert list(Path(scratch).iterdir()) == []


def test_many_files_of_a_candidate_are_closed_to_the_next_one_and_gone_at_the_release(
    agent_box: RunnerBox, drop: bool
) -> None:
    if not drop:
        pytest.skip("without user ids nothing tells whose a file in a shared folder is")
    scratch = agent_box.config["scratch"][0]
    agent_box.create("many")

    def ask(code: str) -> str:
        return str(agent_box.act("many", do="request", message={"run": code})["value"]["result"])

    agent_box.act("many", do="candidate", entry=ENTRY)
    ask(f"[os.chmod(os.makedirs('{scratch}/many') or '{scratch}/many', 0o777)]")
    ask(f"[open(f'{scratch}/many/{{number}}', 'w').close() for number in range(30000)] and 1")
    agent_box.act("many", do="close")
    agent_box.act("many", do="candidate", entry=ENTRY)
    seen = f"os.path.exists('{scratch}/many/0') or os.access('{scratch}/many', os.R_OK | os.X_OK)"
    assert ask(seen) == "False"
    agent_box.act("many", do="close")
    assert agent_box.release("many")
    assert list(Path(scratch).iterdir()) == []


def test_what_an_agent_left_open_to_others_is_closed_to_candidates(
    act: Any, agent_box: RunnerBox, drop: bool
) -> None:
    if not drop:
        pytest.skip("without user ids an agent and its candidates are one user")
    scratch = agent_box.config["scratch"][0]
    act(do="shell", command=f"cd {scratch}; mkdir -m 777 pit; touch pit/file free; chmod 666 pit/file free")
    act(do="shell", command=f"chmod 777 . && ln -s {scratch}/free {scratch}/link; mkdir -m 700 {scratch}/own")
    for stop in ("freeze", "kill"):
        act(do="shell", command=f"chmod 666 {scratch}/free; chmod 777 {scratch}/pit")
        act(do="control", name=stop)
        act(do="candidate", entry=ENTRY)
        for path in ("pit/file", "pit", "free", "link"):
            assert (
                run(act, f"os.access('{scratch}/{path}', os.R_OK) or os.access('{scratch}/{path}', os.W_OK)")
                == "False"
            )
        act(do="close")
        act(do="control", name="thaw")
    assert (
        act(do="shell", command=f"echo x > {scratch}/pit/file && cat {scratch}/pit/file")["output"] == "x\n"
    )


def test_the_agent_is_killed_without_the_candidate_and_the_other_way_round(act: Any) -> None:
    act(do="python", code="kept = 3")
    act(do="candidate", entry=ENTRY)
    act(do="close")
    assert act(do="python", code="kept")["output"] == "3\n"
    act(do="candidate", entry=ENTRY)
    act(do="control", name="kill")
    assert act(do="request", message={"n": 1})["value"] == {"n": 2}
    act(do="close")


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX"])
def test_a_candidate_opens_no_socket_unless_it_was_started_with_them(act: Any, family: str) -> None:
    opened = f"__import__('socket').socket(__import__('socket').{family}).fileno() > 0"
    tried = (
        "exec('def tried(code):\\n try: return eval(code)\\n except OSError as error: return error.errno')"
        f" or tried({opened!r})"
    )
    act(do="candidate", entry=ENTRY)
    assert run(act, tried) == str(errno.EACCES)
    assert run(act, "len(__import__('socket').socketpair())") == "2"
    act(do="close")
    if family != "AF_UNIX":
        act(do="candidate", entry=ENTRY, sockets=True)
        assert run(act, tried) == "True"
        act(do="close")


def test_a_candidate_that_does_not_answer_is_a_timeout(act: Any) -> None:
    act(do="candidate", entry=ENTRY)
    late = act(do="request", message={"run": "time.sleep(60)"}, timeout_s=0.2)
    assert late["raised"] == "TimeoutError"
    assert act(do="close")["value"] is None


@pytest.mark.parametrize(
    "code", ["os._exit(0)", "os.kill(os.getpid(), 11)", "os.closerange(0, 1024)", "1 / 0"]
)
def test_a_candidate_that_is_gone_is_an_end(act: Any, code: str) -> None:
    act(do="candidate", entry=ENTRY)
    assert act(do="request", message={"run": code}, timeout_s=10)["raised"] == "EOFError"
    assert act(do="close")["value"] is None


@pytest.mark.parametrize(
    "data",
    [
        "b'not a packet at all'",
        "b'\\xff' * 8",
        "b'\\0\\0\\0\\x05\\0\\0\\0\\0hello'",
        "b'\\0\\x03\\x0d\\x40\\0\\0\\0\\0' + b'[' * 200000",
    ],
)
def test_what_is_no_packet_ends_the_conversation(act: Any, data: str) -> None:
    act(do="candidate", entry=ENTRY)
    code = f"[os.write(3, {data}), os._exit(0)]"
    assert act(do="request", message={"run": code}, timeout_s=10)["raised"] == "EOFError"
    assert act(do="close")["value"] is None


def test_an_instance_has_one_candidate_at_a_time(act: Any) -> None:
    act(do="candidate", entry=ENTRY)
    assert act(do="candidate", entry=ENTRY)["raised"] == "RuntimeError"
    act(do="close")


def test_a_candidates_daemons_end_with_it(act: Any) -> None:
    act(do="candidate", entry=ENTRY)
    pid = run(act, "__import__('subprocess').Popen(['sleep', '1000'], start_new_session=True).pid")
    act(do="close")
    assert act(do="shell", command=f"test -e /proc/{pid}")["exit_code"] == 1


@pytest.mark.parametrize(
    ("entry", "imported"),
    [
        ("sandbox_service.environments.code.box.candidate:serve", "True"),
        (ENTRY, "False"),
        ("sandbox_service.environments.nowhere:serve", "False"),
    ],
    ids=["ours", "another", "one that is missing"],
)
def test_only_code_of_ours_is_imported_where_candidates_are_forked(entry: str, imported: str) -> None:
    program = (
        "import sys\n"
        "from sandbox_service.runner.untrusted.candidate import load_ahead\n"
        "load_ahead(sys.argv[1])\n"
        "print(sys.argv[1].partition(':')[0] in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, entry], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == imported
