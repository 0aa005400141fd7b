"""Attacks of agent code on AppWorld: answers, databases, evaluator, and the process that has them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.appworld_box import AppWorldEpisode, appworld_box, appworld_catalog
from tests.harness.runner_box import uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_service.environments.appworld.service.catalog import AppworldCatalog
    from tests.harness.runner_box import RunnerBox

pytestmark = pytest.mark.timeout(600)
TASK = "own10_1"
SIDESTEP = """\
# Past the courtesy check, which reads names: every module, and every function of os, is in reach.
load = getattr(builtins, "__imp" + "ort__")
os, sys, socket, gc, struct = map(load, ("os", "sys", "socket", "gc", "struct"))
def call(module, name, *given):
    try:
        return getattr(module, name)(*given)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
def read(path, most=1_000_000):
    try:
        file = getattr(builtins, "op" + "en")(path, "rb")
        return file.read(most)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture(scope="module")
def catalog() -> AppworldCatalog:
    return appworld_catalog()


@pytest.fixture(scope="module")
def box(catalog: AppworldCatalog) -> Iterator[RunnerBox]:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(f"{reason}; without user ids of its own a box is no boundary")
    with appworld_box(catalog, drop=True) as started:
        yield started


@pytest.fixture
def episode(box: RunnerBox, catalog: AppworldCatalog) -> Iterator[AppWorldEpisode]:
    """An episode past the courtesy check; it must be whole, unsolved and cleanly released afterwards."""
    created = AppWorldEpisode.create(box, catalog, TASK)
    assert created.run(SIDESTEP) == "Execution successful."
    yield created
    assert "Mira" in created.run("print(apis.supervisor.show_profile())")
    assert created.verdict()["success"] is False
    created.release()


def told(episode: AppWorldEpisode, code: str) -> object:
    """Return the JSON that a cell prints."""
    answer = episode.run(textwrap.dedent(code))
    assert "Execution failed" not in answer, answer
    return json.loads(answer)


def truth(catalog: AppworldCatalog) -> Path:
    assert catalog.spec.provisions is not None
    return catalog.spec.provisions.data / "tasks" / TASK / "ground_truth"


def world_pids(box: RunnerBox) -> dict[str, int]:
    return {p["role"]: p["pid"] for p in box.processes() if p["role"] != "agent"}


def test_neither_answers_nor_databases_nor_the_evaluator_can_be_read(
    episode: AppWorldEpisode, catalog: AppworldCatalog
) -> None:
    provisions = catalog.spec.provisions
    assert provisions is not None
    files = [
        *truth(catalog).glob("*.*"),
        provisions.data / "base_dbs" / "venmo.db",
        provisions.data / "tasks" / TASK / "dbs" / "supervisor.jsonl",
        provisions.packages / "appworld" / "evaluator.py",
        provisions.packages / "agent_packages.zip",
    ]
    assert [file for file in files if not file.is_file()] == []
    assert len(files) > 10
    answers = told(episode, f"print(json.dumps([str(read(path)) for path in {list(map(str, files))}]))")
    assert isinstance(answers, list)
    assert {answer.partition(":")[0] for answer in answers} == {"PermissionError"}
    folders = [str(provisions.folder), str(provisions.data), str(truth(catalog))]
    listed = told(episode, f"print(json.dumps([call(os, 'listdir', path) for path in {folders}]))")
    assert all(str(each).startswith("PermissionError") for each in listed)


def test_ways_around_the_door_are_closed_too(episode: AppWorldEpisode, catalog: AppworldCatalog) -> None:
    answer = str(truth(catalog) / "answer.json")
    tried = told(
        episode,
        f"""
        os.symlink({answer!r}, "link")
        found = [str(read("link")), call(os, "link", {answer!r}, "hard")]
        found.append(call(os, "chmod", {str(truth(catalog).parents[3])!r}, 0o777))
        found += [call(os, "setgroups", [9999]), call(os, "setgid", 9999), call(os, "setuid", 0)]
        found.append(sorted(os.getgroups()))
        print(json.dumps(found))
        """,
    )
    assert isinstance(tried, list)
    assert all("PermissionError" in each for each in tried[:-1]), tried
    assert 9999 not in tried[-1]


def test_the_worlds_process_shows_nothing_of_itself(episode: AppWorldEpisode, box: RunnerBox) -> None:
    pids = sorted(world_pids(box).values())
    looked = told(
        episode,
        f"""
        found = []
        for pid in {pids}:
            for name in ("mem", "environ", "maps", "fd", "cwd", "root", "exe", "task", "map_files"):
                path = f"/proc/{{pid}}/{{name}}"
                got = call(os, "listdir", path) if name in ("fd", "map_files") else str(read(path))
                if name in ("cwd", "root", "exe"):
                    got = call(os, "readlink", path)
                found.append([name, str(got)])
            found.append(["signal", str(call(os, "ki" + "ll", pid, 9))])
        print(json.dumps(found))
        """,
    )
    assert isinstance(looked, list)
    kept = {"task": "IsADirectoryError"}
    for name, got in looked:
        assert got.startswith(("PermissionError", "ProcessLookupError", kept.get(name, "PermissionError"))), (
            name,
            got,
        )


def test_descriptors_of_the_session_lead_nowhere(episode: AppWorldEpisode) -> None:
    episode.run("DateTime.now()")  # so that the packages have been lent
    kinds = told(
        episode,
        """
        found = {}
        for name in call(os, "list" + "dir", "/proc/self/fd"):
            found[name] = call(os, "readlink", f"/proc/self/fd/{name}").split(":")[0]
        print(json.dumps(found))
        """,
    )
    assert isinstance(kinds, dict)
    # The look itself has one that is gone afterwards; the packages are in memory of the session's own.
    assert set(kinds.values()) <= {"/dev/null", "pipe", "socket", "/memfd", "FileNotFoundError"}, kinds
    assert list(kinds.values()).count("socket") == 1


def test_appworld_itself_cannot_be_imported(episode: AppWorldEpisode) -> None:
    for warmed in ("1", "DateTime.now()"):
        episode.run(warmed)
        names = ["appworld.evaluator", "appworld.apps", "appworld.environment", "appworld.task", "sqlalchemy"]
        tried = told(
            episode, f"print(json.dumps([str(call(builtins, '__import__', name)) for name in {names}]))"
        )
        assert isinstance(tried, list)
        assert all(each.startswith("ModuleNotFoundError") for each in tried), tried


def test_nothing_in_the_sessions_memory_knows_the_answer(
    episode: AppWorldEpisode, catalog: AppworldCatalog
) -> None:
    evaluation = (truth(catalog) / "evaluation.py").read_text()
    marks = ["no_op_pass", "ground_truth_answer", "changed_model_names", "evaluation.py"]
    assert [mark for mark in marks[1:3] if mark not in evaluation] == []
    episode.verdict()
    hidden = [mark[::-1] for mark in marks]
    found = told(
        episode,
        f"""
        wanted = [mark[::-1] for mark in {hidden}]
        texts = [each for each in gc.get_objects() if isinstance(each, (dict, list, tuple, set))]
        held = {{item for each in texts for item in (each.values() if isinstance(each, dict) else each)
                if isinstance(item, str)}}
        mine = {{each for each in held for mark in wanted if mark in each and "wanted" not in each}}
        # All memory that the process has, its interpreter's included.
        memory = []
        with getattr(builtins, "op" + "en")("/proc/self/maps") as maps:
            ranges = [line.split()[0].split("-") for line in maps if line.split()[1].startswith("rw")]
        with getattr(builtins, "op" + "en")("/proc/self/mem", "rb", 0) as mem:
            for start, end in ranges:
                try:
                    mem.seek(int(start, 16))
                    memory.append(mem.read(int(end, 16) - int(start, 16)))
                except (OSError, ValueError, OverflowError):
                    pass
        # The words reversed are in this cell, the words themselves must be nowhere but in ``wanted``.
        counts = [sum(part.count(("def evaluate(" + "test, public_data").encode()) for part in memory)]
        print(json.dumps([sorted(mine - set(wanted)), counts, len(memory) > 3]))
        """,
    )
    assert isinstance(found, list)
    assert found[0] == []
    assert found[1][0] <= 1
    assert found[2]


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "evaluate"},
        {"op": "call", "app": "admin", "api": "show_card_balance", "arguments": {"d": []}, "wrapped": False},
        {"op": "call", "app": "admin", "api": "add_payment_card", "arguments": {"d": []}, "wrapped": True},
        {"op": "call", "app": "nowhere", "api": "x", "arguments": {"d": []}},
        {"op": "call", "app": "venmo", "api": "__class__", "arguments": {"d": []}},
        {"op": "call", "app": ["venmo"], "api": {"a": 1}, "arguments": {"d": []}},
        {"op": "call", "app": "venmo", "api": "login", "arguments": [1]},
        {"op": "call", "app": "venmo", "api": "login", "arguments": {"d": [[{"d": []}, 1]]}},
        {"op": "call", "app": "venmo", "api": "login", "arguments": {"o": ["x", "y"]}},
        {},
    ],
    ids=lambda request: "-".join(map(str, list(request.values())[:3])) or "empty",
)
def test_questions_that_no_api_answers_are_refused(
    episode: AppWorldEpisode, request_: dict[str, object]
) -> None:
    answer = told(
        episode,
        f"""
        asking = load("sandbox_service.runner.untrusted.ask_world", fromlist=["ask"])
        print(json.dumps(asking.ask({request_!r})))
        """,
    )
    assert isinstance(answer, dict)
    assert set(answer) == {"raised"}


def test_ids_that_climb_reach_no_route_of_the_administration(episode: AppWorldEpisode) -> None:
    ways = [
        "../../dbs",
        "../../date_time",
        "../../../dbs",
        "..%2f..%2fdbs",
        "%2e%2e/%2e%2e/dbs",
        "../../openapi.json",
    ]
    ways += ["../../admin/balance", "http://testserver/dbs", "//testserver/dbs", "1/../../../docs"]
    for way in ways:
        answer = episode.run(f"print(apis.simple_note.show_note(note_id={way!r}, access_token='x'))")
        assert answer.startswith("Execution failed"), (way, answer)
        assert "task_output" not in answer
    calls = [
        "requester.get('/dbs')",
        "requester.post('/dbs/save', {'from_db_home_path': 'x', 'to_db_home_path': '/tmp/x'})",
        "requester.request('admin', 'show_card_balance')",
        "requester.request('../admin', 'x')",
        "apis.supervisor.show_profile(_system_datetime='2030-01-01')",
    ]
    for call in calls:
        assert episode.run(call).startswith("Execution failed"), call
    assert episode.run("print(requester.request('supervisor', 'show_profile')['first_name'])") == "Mira\n"


def test_a_replaced_session_side_reports_nothing_but_words(episode: AppWorldEpisode, box: RunnerBox) -> None:
    ours = world_pids(box)
    forged = json.dumps({"passes": 9, "failures": 0, "success": True, "terminated": True, "reward": 1.0})
    forging = episode.run(
        "notebook = load('sandbox_service.environments.appworld.box.notebook', fromlist=['run'])\n"
        "true_run = notebook.run\n"
        "def run(code, *more):\n"
        "    if 'again' in code: return true_run(code, *more)\n"
        f"    call(os, 'wri' + 'te', 1, {forged!r}.encode())\n"
        "notebook.run = run"
    )
    assert forging == "Execution successful."
    assert episode.run("print(1)") == forged
    assert (episode.said["reward"], episode.said["terminated"]) == (0.0, False)
    assert episode.verdict()["success"] is False
    assert world_pids(box) == ours
    assert episode.run("notebook.run = true_run  # again") == "Execution successful."


def test_a_killed_or_stopped_world_is_out_of_reach_and_a_broken_line_ends_the_session_only(
    episode: AppWorldEpisode, box: RunnerBox
) -> None:
    ours = world_pids(box)
    killing = episode.run(
        "for pid in filter(str.isdigit, call(os, 'list' + 'dir', '/proc')):\n"
        f"    if int(pid) in {sorted(ours.values())}: print(call(os, 'ki' + 'll', int(pid), 9))"
    )
    assert killing.count("PermissionError") + killing.count("ProcessLookupError") == len(ours)
    answer = episode.run(
        "[call(os, 'wri' + 'te', fd, struct.pack('>II', 1 << 30, 0)) for fd in range(3, 64)]"
    )
    assert "All variables are lost" in answer
    assert world_pids(box) == ours
