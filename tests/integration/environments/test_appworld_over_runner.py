"""AppWorld episodes in a real runner: all references, evaluation, forms of actions, time, state."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.appworld_box import (
    AppWorldEpisode,
    RefusedError,
    appworld_box,
    appworld_catalog,
    guarded_copy,
)
from tests.harness.runner_box import uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox_service.environments.appworld.service.catalog import AppworldCatalog
    from tests.harness.runner_box import RunnerBox

    Play = Callable[..., AppWorldEpisode]

pytestmark = pytest.mark.timeout(600)
TASK = "own01_1"


@pytest.fixture(scope="module")
def catalog() -> AppworldCatalog:
    return appworld_catalog()


@pytest.fixture(scope="module")
def box(catalog: AppworldCatalog) -> Iterator[RunnerBox]:
    with appworld_box(catalog, drop=uid_drop_missing() is None) as started:
        yield started


@pytest.fixture
def play(box: RunnerBox, catalog: AppworldCatalog) -> Iterator[Play]:
    """Creates episodes, which are released afterwards."""
    episodes: list[AppWorldEpisode] = []

    def create(
        task_id: str = TASK, task: dict[str, object] | None = None, **params: object
    ) -> AppWorldEpisode:
        episodes.append(AppWorldEpisode.create(box, catalog, task_id, task, **params))
        return episodes[-1]

    yield create
    for each in episodes:
        each.release()


def test_there_are_forty_two_tasks_of_our_own_in_nine_apps(catalog: AppworldCatalog) -> None:
    ids = catalog.task_ids("own")
    cells = "\n".join(str(message["content"]) for task in ids for message in catalog.reference(task))
    apps = (
        "amazon",
        "file_system",
        "gmail",
        "phone",
        "simple_note",
        "splitwise",
        "spotify",
        "todoist",
        "venmo",
    )
    assert len(ids) == len(set(ids)) == 42
    assert [app for app in apps if f"apis.{app}.login" not in cells] == []
    assert sorted([*catalog.task_ids("own_train"), *catalog.task_ids("own_test")]) == sorted(ids)


@pytest.mark.slow
def test_every_reference_scores_one_and_doing_nothing_scores_zero(
    catalog: AppworldCatalog, play: Play
) -> None:
    for task_id in catalog.task_ids("own"):
        idle = play(task_id)
        assert idle.verdict(sparse=True)["score"] == 0.0, task_id
        assert 0 < idle.verdict()["score"] < 0.5, task_id
        # Saying that it is done, without doing anything, is no better.
        idle.run("apis.supervisor.complete_task()")
        assert (idle.said["terminated"], idle.verdict()["success"]) == (True, False), task_id
        solved = play(task_id)
        solved.solve(catalog, task_id)
        verdict = solved.verdict()
        assert (solved.said["reward"], solved.said["terminated"]) == (1.0, True), task_id
        assert (verdict["score"], verdict["success"]) == (1.0, True), task_id
        assert solved.verdict(sparse=True)["score"] == 1.0, task_id


def test_the_wrong_answer_is_not_enough(play: Play) -> None:
    episode = play("own02_1")
    episode.run("apis.supervisor.complete_task(answer=8)")
    assert (episode.said["terminated"], episode.verdict()["success"]) == (True, False)
    assert episode.said["reward"] == pytest.approx(2 / 3)


def test_an_evaluation_changes_nothing(catalog: AppworldCatalog, play: Play) -> None:
    evaluated, undisturbed = play(), play()
    for message in catalog.reference(TASK):
        assert [evaluated.verdict() for _ in range(2)] == [evaluated.verdict()] * 2
        assert evaluated.step(dict(message)) == undisturbed.step(dict(message))
    assert evaluated.verdict()["score"] == undisturbed.verdict()["score"] == 1.0
    with pytest.raises(RefusedError) as refused:
        evaluated.run("1")
    assert refused.value.code == "instance_finished"


def test_two_instances_of_one_task_share_nothing(catalog: AppworldCatalog, play: Play) -> None:
    poor, other = play(), play()
    poor.run(
        "passwords = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}\n"
        "token = apis.simple_note.login(\n"
        "    username='mira.holt@example.com', password=passwords['simple_note'])['access_token']\n"
        "for note in apis.simple_note.search_notes(page_limit=20, access_token=token):\n"
        "    apis.simple_note.delete_note(note_id=note['note_id'], access_token=token)"
    )
    assert other.run("token") == (
        'Execution failed. Traceback:\n  File "<python-input>", line 1, in <module>\n    token\n'
        "NameError: name 'token' is not defined"
    )
    other.solve(catalog, TASK)
    assert (poor.verdict()["success"], other.verdict()["success"]) == (False, True)


def test_the_same_actions_lead_to_the_same_bytes(catalog: AppworldCatalog, play: Play) -> None:
    first, second = play("own12_1"), play("own12_1")
    for message in catalog.reference("own12_1"):
        assert first.step(dict(message)) == second.step(dict(message))


def test_a_copy_goes_its_own_way(box: RunnerBox, catalog: AppworldCatalog, play: Play) -> None:
    episode = play()
    opening, *rest = catalog.reference(TASK)
    episode.step(dict(opening))
    reply = box.request(Op.FORK, episode.name, meta={"deadline_s": 60, "copy_id": "twin"})
    assert reply.op is Op.REPLY, reply.body
    twin = AppWorldEpisode(box, "twin", {})
    twin.run("found = []\napis.simple_note.delete_note(note_id=1, access_token=simple_note_token)")
    for message in rest:
        episode.step(dict(message))
    assert (episode.verdict()["success"], twin.verdict()["success"]) == (True, False)
    assert twin.run("print(found)") == "[]\n"
    twin.release()


def test_the_first_block_is_run_and_a_message_without_one_is_told_so(play: Play) -> None:
    episode = play()
    (answer,) = episode.step("Let me see.\n```python\nx = 1\nprint(x)\n```\nand\n```python\nx = 2\n```")
    assert answer == {"role": "user", "content": "Output:\n```\n1\n```\n\n"}
    assert episode.step("```python\nprint(x + 1)")[0]["content"] == "Output:\n```\n2\n```\n\n"
    (answer,) = episode.step("I am thinking.")
    assert answer["role"] == "user"
    assert answer["content"].startswith("Nothing was run")
    call = {"name": "appworld", "arguments": {"code": "print(x)"}}
    (answer,) = episode.step(f"<tool_call>{json.dumps(call)}</tool_call>")
    assert answer["content"] == "Output:\n```\n1\n```\n\n"


def test_each_native_call_is_answered_and_none_runs_after_the_end(play: Play) -> None:
    codes = ["print(1)", "apis.supervisor.complete_task()", "print(2)"]
    calls = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({"code": code})},
        }
        for number, (name, code) in enumerate(zip(("appworld",) * 3, codes, strict=True))
    ]
    calls.insert(0, {"id": "x", "type": "function", "function": {"name": "python", "arguments": "{}"}})
    episode = play()
    answers = episode.step({"role": "assistant", "tool_calls": calls})
    assert [each["tool_call_id"] for each in answers] == ["x", "c0", "c1", "c2"]
    assert "no tool 'python'" in answers[0]["content"]
    assert answers[1]["content"] == "Output:\n```\n1\n```\n\n"
    assert answers[3]["content"] == "Nothing was run: the task has been completed."
    assert episode.said["terminated"]


def test_in_simple_mode_the_message_is_code_and_the_answer_bare(play: Play) -> None:
    episode = play(simple=True)
    assert episode.step("print(apis.supervisor.show_profile()['first_name'])")[0]["content"] == "Mira\n"


def test_the_prompt_parameter_chooses_between_advice_and_a_few_words(play: Play) -> None:
    long, short = (play(**params).said["observation"]["messages"] for params in ({}, {"prompt": False}))
    assert [each["role"] for each in long] == [each["role"] for each in short] == ["system", "user"]
    assert long[1] == short[1]
    assert "Task: Add 'butter'" in long[1]["content"]
    assert len(long[0]["content"]) > 5 * len(short[0]["content"])


def test_sparse_completion_earns_all_or_nothing(play: Play) -> None:
    episode = play(sparse=True)
    episode.run("apis.supervisor.complete_task()")
    assert (episode.said["reward"], episode.said["terminated"]) == (0.0, True)


@pytest.mark.parametrize("params", [{"nonsense": 1}, {"simple": "yes"}, {"sparse": 1}], ids=str)
def test_wrong_parameters_are_refused(play: Play, params: dict[str, object]) -> None:
    with pytest.raises(RefusedError) as refused:
        play(**params)
    assert refused.value.code == "invalid_request"
    with pytest.raises(RefusedError) as refused:
        play().verdict(**params)
    assert refused.value.code == "invalid_request"


def test_a_cell_that_loops_is_interrupted_and_keeps_its_variables(play: Play) -> None:
    episode = play(task={"cell_timeout_s": 2})
    episode.run("kept = 1")
    answer = episode.run("while True: pass")
    assert re.search(r"while True: pass\nException: Execution timed out after 2 seconds.$", answer)
    assert episode.run("print(kept)") == "1\n"


def test_a_cell_that_cannot_be_interrupted_loses_its_variables_and_nothing_else(play: Play) -> None:
    episode = play(task={"cell_timeout_s": 1})
    stubborn = (
        "def spin():\n    while True: pass\nwhile True:\n    try: spin()\n    except BaseException: pass"
    )
    answer = episode.run(stubborn)
    assert "All variables are lost" in answer
    assert episode.run("print(apis.supervisor.show_profile()['first_name'])") == "Mira\n"


def test_a_session_that_dies_is_told_of_and_replaced(play: Play) -> None:
    episode = play()
    assert "ended its Python process" in episode.run("import os\ngetattr(os, '_ex' + 'it')(3)")
    assert episode.run("print('new')") == "new\n"


def test_long_output_is_cut(catalog: AppworldCatalog, play: Play) -> None:
    answer = play().run("print('x' * 10_000_000)")
    assert len(answer) == catalog.payload(TASK).task["max_output"]


def test_the_calendar_of_a_cell_is_that_of_the_apps(play: Play) -> None:
    episode = play()
    assert episode.run("print(datetime.datetime.now(), DateTime.now().add(days=1))") == (
        "2023-05-18 12:00:00 2023-05-19 12:00:00\n"
    )
    assert episode.run("import time\nprint(time.time())") == "1684411200.0\n"
    assert '"date": "2023-05-18"' in episode.run(
        "passwords = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}\n"
        "token = apis.phone.login(username='5550100001', password=passwords['phone'])['access_token']\n"
        "print(json.dumps(apis.phone.get_current_date_and_time(access_token=token)))"
    ).replace("Thursday, May 18, 2023", "2023-05-18")


def test_the_operators_data_takes_the_place_of_ours(catalog: AppworldCatalog) -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with guarded_copy(catalog) as top, appworld_box(catalog, drop=True, data=str(top / "data")) as box:
        episode = AppWorldEpisode.create(box, catalog, "own05_2")
        episode.solve(catalog, "own05_2")
        assert episode.verdict()["success"]
        episode.release()


_FAILING_CHECKS = """

checks = evaluate


def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    if {condition}:
        raise RuntimeError("as told")
    checks(test, public_data, private_data, main_user, models, ground_truth_answer)
"""


@pytest.fixture
def play_with(catalog: AppworldCatalog) -> Iterator[Callable[[str], AppWorldEpisode]]:
    """Create an episode whose checks raise on a condition."""
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with contextlib.ExitStack() as cleanup:

        def create(condition: str) -> AppWorldEpisode:
            top = cleanup.enter_context(guarded_copy(catalog))
            with (top / "data/tasks" / TASK / "ground_truth/evaluation.py").open(
                "a", encoding="utf-8"
            ) as file:
                file.write(_FAILING_CHECKS.format(condition=condition))
            box = cleanup.enter_context(appworld_box(catalog, drop=True, data=str(top / "data")))
            episode = AppWorldEpisode.create(box, catalog, TASK)
            cleanup.callback(episode.release)
            return episode

        yield create


def test_checks_that_fail_at_what_the_agent_wrote_are_a_score_of_0(
    play_with: Callable[[str], AppWorldEpisode],
) -> None:
    episode = play_with("models.end.supervisor.Task.all()[0].status == 'success'")
    episode.run("apis.supervisor.complete_task(answer='anything')")
    assert (episode.said["terminated"], episode.said["reward"]) == (True, 0.0)
    verdict = episode.verdict()
    assert (verdict["score"], verdict["success"]) == (0.0, False)
    assert (verdict["details"]["passes"], verdict["details"]["failures"]) == (0, 5)


def test_checks_that_fail_on_the_untouched_databases_too_are_the_tasks_fault(
    play_with: Callable[[str], AppWorldEpisode],
) -> None:
    episode = play_with("True")
    episode.run("print(1)")
    with pytest.raises(RefusedError) as refused:
        episode.verdict()
    assert refused.value.code == "grader_failed"
