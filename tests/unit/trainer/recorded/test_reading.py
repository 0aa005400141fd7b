import json
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_contract.messages import Message
from service_cli.policies.conversation import EpisodeConversation
from service_cli.policies.outcomes import EpisodeFailure, PlayedOutcome
from service_cli.policies.records import EpisodeFile
from tests.harness.recorded_files import read_completions, read_preferences
from trainer.batches.payloads import group_to_json
from trainer.config.recorded import RecordedFiles
from trainer.errors import DataError
from trainer.recorded.episode_rows import write_episodes
from trainer.recorded.preference_rows import write_completions, write_preferences
from trainer.recorded.reading import check_labels, read_episodes
from trainer.recorded.types import LabelledCompletion, Preference, RecordedEpisode, RowOrigin
from trainer.types import (
    FailureNote,
    GroupSpec,
    Line,
    PromptFrame,
    Segment,
    StopReason,
    TaskRef,
    Trajectory,
    TrajectoryGroup,
    Turn,
)

ASK = {"role": "user", "content": "Which way?"}
SAY = {"role": "assistant", "content": "north"}
CONVERSATION = {
    "conversations": [
        {"from": "human", "loss": None, "value": "You are in a house."},
        {"from": "gpt", "loss": False, "value": "OK."},
        {"from": "human", "loss": None, "value": "A door."},
        {"from": "gpt", "loss": True, "value": "Thought:\nIt is shut.\n\nAction:\nopen door"},
    ],
    "item_id": "alfworld_7",
}
PAIR = {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}


def write(folder: Path, *rows: object, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def files(*paths: Path, **settings: object) -> RecordedFiles:
    return RecordedFiles.model_validate({"files": paths, **settings})


def message(role: str, content: str) -> Message:
    return Message.model_validate({"role": role, "content": content})


def test_an_exported_episode_keeps_its_task_and_result(tmp_path: Path) -> None:
    row = {
        "instance_id": "i-1",
        "environment": "textcraft",
        "task_id": "t/1",
        "tenant": "me",
        "supervisor": "s",
        "seed": 3,
        "params": {},
        "parent": None,
        "created_at": 1.0,
        "ended_at": 2.0,
        "ended_by": "release",
        "steps": 1,
        "terminated": True,
        "truncated": False,
        "success": True,
        "score": 1.0,
        "reward": 1.0,
        "step_rewards": [0.5],
        "step_ms": [3.0],
        "messages": [ASK, SAY],
        "tools": [{"type": "function", "function": {"name": "go"}}],
    }
    (episode,) = read_episodes(files(write(tmp_path, row)))
    assert (episode.environment, episode.split, episode.task_id) == ("textcraft", "", "t/1")
    assert (episode.id, episode.score, episode.success, episode.step_rewards) == ("i-1", 1.0, True, (0.5,))
    assert [tool.function.name for tool in episode.tools] == ["go"]
    assert str(episode.origin) == f"{tmp_path / 'rows.jsonl'}:1"
    assert episode.prompt == (message("user", "Which way?"),)
    assert episode.completion == (message("assistant", "north"),)


def test_an_instance_whose_box_died_has_a_failure_class(tmp_path: Path) -> None:
    (episode,) = read_episodes(files(write(tmp_path, {"messages": [ASK, SAY], "ended_by": "lost"})))
    assert episode.failure_class == "sandbox"


def test_an_agenttraj_entry_without_loss_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "alfworld_train.json"
    path.write_text(json.dumps([CONVERSATION]))
    (episode,) = read_episodes(files(path))
    assert [each.role for each in episode.messages] == ["user", "assistant", "user", "assistant"]
    assert episode.task_id == "alfworld_7"
    assert episode.skipped == {1}


def test_steps_become_turns_in_agenttraj_style(tmp_path: Path) -> None:
    steps = [
        {"thought": "It is shut.", "action": "open door", "observation": "It opens.", "reward": 0.0},
        {"action": "go", "reward": 1.0},
    ]
    row = {"instruction": "Leave the house.", "steps": steps, "success": True}
    (episode,) = read_episodes(files(write(tmp_path, row)))
    assert episode.messages == (
        message("user", "Leave the house."),
        message("assistant", "Thought:\nIt is shut.\n\nAction:\nopen door"),
        message("user", "It opens."),
        message("assistant", "go"),
    )
    assert episode.step_rewards == (0.0, 1.0)


def group(*trajectories: Trajectory) -> dict[str, object]:
    spec = GroupSpec(4, TaskRef("code", "tiny", "t/1"), 0, len(trajectories), 8)
    return json.loads(group_to_json(TrajectoryGroup(spec, trajectories)))


def played(name: str, *lines: Line, score: float | None = 1.0, **more: object) -> Trajectory:
    turn = Turn(1, 2, (), reward=0.25, terms={"well_formed": 0.0})
    segment = Segment((1, 2), (False, True), (0.0, -1.0), (turn,))
    given = {"stop": StopReason.TERMINATED, "segments": (segment,), **more}
    return Trajectory(id=name, task=TaskRef("code", "tiny", "t/1"), seed=0, score=score, lines=lines, **given)


def test_a_runs_groups_become_episodes(tmp_path: Path) -> None:
    lines = (Line("user", "?"), Line("assistant", "!"), Line("agent error", "none of the model's business"))
    failed = FailureNote("capacity", "full", "no box", "create")
    unplayed = played("4.1", score=None, segments=(), failure=failed, stop=StopReason.FAILED)
    path = write(tmp_path, group(played("4.0", *lines, stop=StopReason.HORIZON), unplayed))
    (episode,) = read_episodes(files(path))
    assert (episode.environment, episode.split, episode.task_id) == ("code", "tiny", "t/1")
    assert [each.role for each in episode.messages] == ["user", "assistant"]
    assert (episode.score, episode.step_rewards, episode.truncated) == (1.0, (0.25,), True)
    assert episode.format_errors == 1


def test_a_file_that_the_command_run_wrote_is_read(tmp_path: Path) -> None:
    failure = EpisodeFailure("sandbox", "sandbox_failed", "gone", 1.5)
    solved = PlayedOutcome("t/1", 1.0, score=1.0, success=True, retried=(failure,), seed=7)
    failed = PlayedOutcome("t/2", 1.0, failed=failure)
    conversation = EpisodeConversation()
    conversation.messages.extend(Message.model_validate(each) for each in (ASK, SAY))
    conversation.rewards.append(0.5)
    path = tmp_path / "episodes.jsonl"
    with EpisodeFile(path, "code", "openai:m@http://server", 0.7, {"attempts": 2}) as file:
        file.write(solved, conversation)
        file.write(failed, conversation)
    found = read_episodes(files(path))
    assert (found[0].seed, found[0].params) == (7, {"attempts": 2})
    assert [(each.task_id, each.score, each.failure_class) for each in found] == [
        ("t/1", 1.0, ""),
        ("t/2", None, "sandbox"),
    ]


@pytest.mark.parametrize(
    "row",
    [
        PAIR,
        {"prompt": [message("user", "The sky is").model_dump()], "chosen": " blue.", "rejected": " green."},
        {
            "prompt": "The sky is",
            "prompt_id": "p",
            "chosen": [{"role": "user", "content": "The sky is"}, {"role": "assistant", "content": " blue."}],
            "rejected": [
                {"role": "user", "content": "The sky is"},
                {"role": "assistant", "content": " green."},
            ],
            "messages": [],
            "score_chosen": 8.0,
            "score_rejected": 5.0,
        },
        {
            "chosen": [{"role": "user", "content": "The sky is"}, {"role": "assistant", "content": " blue."}],
            "rejected": [
                {"role": "user", "content": "The sky is"},
                {"role": "assistant", "content": " green."},
            ],
        },
    ],
    ids=["standard", "conversational", "ultrafeedback", "implicit prompt"],
)
def test_formats_of_preferences_mean_the_same(tmp_path: Path, row: dict[str, object]) -> None:
    (preference,) = read_preferences(files(write(tmp_path, row)))
    assert preference.prompt == (message("user", "The sky is"),)
    assert preference.chosen == (message("assistant", " blue."),)
    assert preference.rejected == (message("assistant", " green."),)
    assert preference.margin == (3.0 if "score_chosen" in row else None)


def test_a_prompt_with_a_completion_is_an_episode_and_with_a_label_a_labelled_completion(
    tmp_path: Path,
) -> None:
    plain = {"prompt": "2+2?", "completion": "4"}
    (episode,) = read_episodes(files(write(tmp_path, plain)))
    assert episode.completion == (message("assistant", "4"),)
    rows = [{**plain, "label": True}, {**plain, "completion": "5", "label": False}]
    assert [each.desirable for each in read_completions(files(write(tmp_path, *rows)))] == [True, False]


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_class_are_refused(tmp_path: Path, label: bool) -> None:
    rows = [{"prompt": "?", "completion": text, "label": label} for text in "ab"]
    with pytest.raises(DataError, match=f"all 2 labels are {str(label).lower()}; .*both classes"):
        check_labels(read_completions(files(write(tmp_path, *rows))))


BAD = [
    ("{", "not valid JSON"),
    ([], "a row must be an object with columns"),
    ({"text": "The sky is blue."}, "has only a text"),
    ({"question": "?"}, r"is not recognized by its columns \(question\); known ones are run"),
    ({"sequence": 0, "operation": "step"}, "is an event; export episodes"),
    ({"messages": [ASK, SAY], "scores": 1}, "unknown column scores; correct the name, or list it"),
    ({"messages": [ASK, SAY], "score": float("nan")}, "score: input should be a finite number"),
    ({"messages": [ASK, SAY], "step_rewards": [float("inf")]}, "step_rewards.0: .* finite number"),
    ({"messages": []}, "messages: should have at least 1 item"),
    ({"messages": [ASK]}, "no message of the assistant, .*skip_unplayed=true"),
    ({"messages": [SAY, ASK]}, "begins with the assistant's message: the task"),
    ({"messages": [ASK, {"role": "assistant", "content": " "}]}, "all messages of the assistant are empty"),
    ({"messages": [{"role": "robot"}]}, "messages.0.role: "),
    ({"messages": [ASK, SAY], "skipped": [0]}, "skipped: message 0 is not one of the assistant's"),
    ({"messages": [ASK, SAY], "tools": "["}, "tools: .*not valid JSON"),
    ({"conversations": [{"from": "alien", "value": "?"}]}, "unknown author 'alien'; known ones are human"),
    ({"instruction": "?", "steps": [{"action": " "}]}, "steps.0.action: is empty"),
    (
        {"instruction": "?", "steps": [{"action": "a"}, {"action": "b"}]},
        "steps.0.observation: is empty, and only the last step",
    ),
    (
        {"instruction": "?", "steps": [{"action": "a", "observation": "b", "reward": 1}, {"action": "c"}]},
        "1 of 2 have a reward",
    ),
    ({**PAIR, "chosen": ""}, "chosen: is empty"),
    ({**PAIR, "rejected": " "}, "rejected: is empty"),
    ({**PAIR, "rejected": " blue."}, "chosen and rejected are the same"),
    ({"chosen": "The sky is blue.", "rejected": "The sky is green."}, "has no prompt"),
    (
        {"chosen": [ASK, SAY], "rejected": [{"role": "user", "content": "Who?"}, SAY]},
        "the prompts of chosen and rejected differ, at message 0",
    ),
    (
        {**PAIR, "chosen": [ASK, SAY], "rejected": [ASK, SAY]},
        "chosen: repeats another prompt than `prompt`; the prompts of a pair must be the same",
    ),
    ({"chosen": [ASK, SAY], "rejected": [ASK]}, "one conversation is the beginning of the other"),
    ({**PAIR, "score_chosen": 1, "score_rejected": 2.5}, "rejected completion has the higher score, by 1.5"),
    ({"prompt": "?", "completion": ""}, "completion: is empty"),
    ({"prompt": "?", "completion": "4", "label": None}, "label: is null"),
    ({"prompt": "?", "completion": "4", "label": "perhaps"}, "label: input should be a valid boolean"),
    ({"spec": {}, "trajectories": []}, "spec.index: field required"),
]


@pytest.mark.parametrize(("row", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_a_bad_row_is_named_with_file_row_and_reason(tmp_path: Path, row: object, words: str) -> None:
    with pytest.raises(DataError, match=f"rows.jsonl:2: .*{words}"):
        read_preferences(files(write(tmp_path, "", row)))


def test_a_row_of_another_format_than_the_files_first_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl:2: unknown columns prompt, chosen, rejected"):
        read_episodes(files(write(tmp_path, {"messages": [ASK, SAY]}, PAIR)))


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("rows.csv", "a,b", "the ending of its name is not that of a format"),
        ("rows.jsonl", "\n", "the file has no rows"),
        ("rows.json", "{}", "must be an array of rows"),
        ("rows.json", "[", "not valid JSON"),
        ("rows.parquet", "PAR", "is not a Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, body: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(body)
    with pytest.raises(DataError, match=f"{name}: {words}"):
        read_episodes(files(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.jsonl: cannot be read: No such file"):
        read_episodes(files(tmp_path / "gone.jsonl"))


def test_columns_may_be_ignored_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, {"messages": [ASK, SAY], "quality": "high"})
    assert len(read_episodes(files(path, ignore_columns=["quality"]))) == 1


def test_unplayed_instances_may_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, {"messages": [ASK]}, {"messages": [ASK, SAY]})
    assert [each.origin.row for each in read_episodes(files(path, skip_unplayed=True))] == [2]
    with pytest.raises(DataError, match="no row is left: none of the 1 episodes was played"):
        read_episodes(files(write(tmp_path, {"messages": [ASK]}), skip_unplayed=True))


def test_records_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl:1: has preferences where episodes are wanted"):
        read_episodes(files(write(tmp_path, PAIR)))


def test_only_the_first_rows_are_read_with_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path, PAIR, "{")
    assert len(read_preferences(files(path, limit=1))) == 1


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, PAIR, PAIR)
    told: list[tuple[Path, int]] = []
    read_preferences(files(path), lambda file, size: told.append((file, size)))
    assert told[-1] == (path, path.stat().st_size)


ORIGIN = RowOrigin("somewhere", 1)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    asked, said, other = (
        message("user", "?"),
        message("assistant", "größer\u2028"),
        message("assistant", "no"),
    )
    episode = RecordedEpisode(
        (asked, said, asked, other),
        ORIGIN,
        id="4.1",
        environment="code",
        split="tiny",
        task_id="t/1",
        score=0.5,
        success=False,
        step_rewards=(0.0, 0.5),
        skipped=frozenset({1}),
        weight=0.25,
        failure_class="timeout",
        truncated=True,
        format_errors=2,
        policy="small",
        temperature=0.7,
        tools_unknown=True,
        earlier=(asked, other),
        part=1,
        repeated_turns=1,
    )
    preference = Preference((asked,), (said,), (other,), ORIGIN, "code", "t/1", margin=0.5)
    labelled = tuple(LabelledCompletion((asked,), (said,), wanted, ORIGIN) for wanted in (True, False))
    assert write_episodes(tmp_path / "new" / "episodes.jsonl", [episode]) == 1
    write_preferences(tmp_path / "pairs.jsonl", [preference])
    write_completions(tmp_path / "labels.jsonl", labelled)
    assert [moved(each) for each in read_episodes(files(tmp_path / "new" / "episodes.jsonl"))] == [episode]
    assert [moved(each) for each in read_preferences(files(tmp_path / "pairs.jsonl"))] == [preference]
    assert tuple(moved(each) for each in read_completions(files(tmp_path / "labels.jsonl"))) == labelled


def moved(record):  # type: ignore[no-untyped-def]
    return replace(record, origin=ORIGIN)


@pytest.mark.parametrize(
    ("frames", "warned"), [((), True), ((PromptFrame(0, 0),), False)], ids=["former", "present"]
)
def test_records_that_do_not_name_their_tools_are_warned_of(tmp_path, caplog, frames, warned) -> None:
    task = TaskRef("code", "tiny", "t/1")
    segment = Segment((1, 2), (False, True), (0.0, -1.0), (Turn(1, 2, (), line=1),))
    lines = (Line("user", "Which way?"), Line("assistant", "north"))
    played = Trajectory("4.0", task, 0, (segment,), StopReason.TERMINATED, lines=lines, frames=frames)
    file = tmp_path / "trajectories.jsonl"
    file.write_bytes(group_to_json(TrajectoryGroup(GroupSpec(4, task, 0, 1, 8), (played,))) + b"\n")
    assert len(read_episodes(files(file))) == 1
    assert ("recorded without their tools" in caplog.text) is warned
