import json
from pathlib import Path

import pytest

from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.box.schemas import TOOL_NAMES
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.errors import ServiceError

ROW = {"id": "mine/1", "prompt": "Say yes.", "grader": {"kind": "exact", "answers": ["yes"]}}


@pytest.fixture(scope="module")
def catalog() -> CodeCatalog:
    return CodeCatalog(CodeConfig())


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_descriptor_tells_splits_tools_and_parameters(catalog: CodeCatalog) -> None:
    descriptor = catalog.describe()
    sizes = {split.name: split.size for split in descriptor.splits}
    assert sizes["humaneval"] == 164
    assert sizes["easy"] + sizes["medium"] + sizes["hard"] == sizes["train"] + sizes["test"] >= 60
    assert descriptor.default_split in sizes
    assert tuple(tool.function.name for tool in descriptor.tools) == TOOL_NAMES
    assert "shaping" in descriptor.params["properties"]
    assert descriptor.capabilities.agent_code
    assert descriptor.capabilities.fork
    assert not descriptor.capabilities.deterministic


def test_unknown_splits_and_tasks_are_named(catalog: CodeCatalog) -> None:
    with pytest.raises(ServiceError, match="train, test, easy") as caught:
        catalog.task_ids("mbpp")
    assert caught.value.code is ErrorCode.UNKNOWN_SPLIT
    with pytest.raises(ServiceError) as caught:
        catalog.payload("nothing")
    assert caught.value.code is ErrorCode.UNKNOWN_TASK


def test_ground_truth_is_in_no_task_that_is_sent_to_a_box(catalog: CodeCatalog) -> None:
    for split in ("train", "test", "humaneval"):
        for task_id in catalog.task_ids(split):
            payload = catalog.payload(task_id)
            assert set(payload.task) == {
                "id", "prompt", "bare", "files", "artifact", "tested", "difficulty", "category",
                "max_steps", "tool_timeout_s", "max_output_bytes",
            }  # fmt: skip
            sent = json.dumps(payload.task)
            for test in payload.grading.get("tests", []):
                assert json.dumps(test)[1:-1] not in sent


def test_settings_reach_the_task() -> None:
    config = CodeConfig(max_steps=7, tool_timeout_s=3, max_output_bytes=99)
    payload = CodeCatalog(config).payload("maths_garden_squares")
    assert payload.max_steps == payload.task["max_steps"] == 7
    assert (payload.task["tool_timeout_s"], payload.task["max_output_bytes"]) == (3, 99)


def test_references_are_assistant_messages_that_end_with_submit(catalog: CodeCatalog) -> None:
    for task_id in catalog.task_ids("train"):
        messages = [Message.model_validate(message) for message in catalog.reference(task_id)]
        calls = [call for message in messages for call in message.tool_calls or ()]
        assert len(calls) == len(messages)
        assert [call.function.name for call in calls].index("submit") == len(calls) - 1


def test_own_files_are_splits_of_their_name(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", ROW, {**ROW, "id": "mine/2", "max_steps": 2})
    catalog = CodeCatalog(CodeConfig(task_files=(path,)))
    assert catalog.task_ids("mine") == ("mine/1", "mine/2")
    assert catalog.payload("mine/2").max_steps == 2
    assert catalog.reference("mine/1") == []


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        ("train.jsonl", ROW, "a split 'train' already"),
        ("mine.jsonl", {**ROW, "id": "HumanEval/0"}, "a task 'HumanEval/0' already"),
    ],
)
def test_names_that_are_taken_are_refused(tmp_path: Path, name: str, row: dict, words: str) -> None:
    catalog = CodeCatalog(CodeConfig(task_files=(write(tmp_path / name, row),)))
    with pytest.raises(ServiceError, match=words) as caught:
        catalog.describe()
    assert caught.value.code is ErrorCode.TASK_INVALID


def test_packs_are_read_once(catalog: CodeCatalog) -> None:
    assert catalog.task_ids("train") is catalog.task_ids("train")


def test_mbpp_adds_the_splits_of_the_paper(tmp_path: Path) -> None:
    rows = [
        {"task_id": number, "text": "t", "code": "def f():\n    return 1", "test_list": ["assert f() == 1"]}
        for number in (5, 11, 510, 511, 600, 601, 974)
    ]
    catalog = CodeCatalog(CodeConfig(mbpp_path=write(tmp_path / "mbpp.jsonl", *rows)))
    assert len(catalog.task_ids("mbpp")) == 7
    assert catalog.task_ids("mbpp_test") == ("MBPP/11", "MBPP/510")
    assert catalog.task_ids("mbpp_validation") == ("MBPP/511", "MBPP/600")
    assert catalog.task_ids("mbpp_train") == ("MBPP/601", "MBPP/974")
