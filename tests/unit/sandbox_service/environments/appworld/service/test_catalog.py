"""Splits and tasks from a folder laid out as AppWorld's."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import AppworldConfig
from sandbox_service.environments.appworld.service.catalog import AppworldCatalog
from sandbox_service.environments.base import Provisions
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from pathlib import Path


def lay_out(data: Path, **splits: str) -> Path:
    (data / "datasets").mkdir(parents=True)
    for name, lines in splits.items():
        (data / "datasets" / f"{name}.txt").write_text(lines)
    truth = data / "tasks" / "a_1" / "ground_truth"
    truth.mkdir(parents=True)
    (truth / "metadata.json").write_text(json.dumps({"difficulty": 2}))
    (truth / "reference.json").write_text(json.dumps(["x = 1", "apis.supervisor.complete_task()"]))
    (data / "tasks" / "b_1" / "ground_truth").mkdir(parents=True)
    return data


def catalog_of(folder: Path, operator_data: Path | None = None) -> AppworldCatalog:
    return AppworldCatalog(AppworldConfig(max_steps=7), Provisions(folder, "d", operator_data))


def test_each_list_of_ids_is_a_split_and_the_official_ones_come_first(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", other="a_1\n", dev="b_1\n", train="a_1\nb_1:hard\n\n")
    catalog = catalog_of(tmp_path)
    described = catalog.describe()
    assert [(split.name, split.size) for split in described.splits] == [
        ("train", 2),
        ("dev", 1),
        ("other", 1),
    ]
    assert described.default_split == "train"
    assert list(catalog.task_ids("train")) == ["a_1", "b_1"]


def test_our_own_tasks_have_the_names_that_clients_ask_for_and_not_those_of_the_test_splits(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path / "data", own="a_1\nb_1\n", own_train="a_1\n", own_test="b_1\n")
    catalog = catalog_of(tmp_path)
    assert list(catalog.task_ids("train")) == list(catalog.task_ids("own_train")) == ["a_1"]
    assert list(catalog.task_ids("dev")) == list(catalog.task_ids("own_test")) == ["b_1"]
    assert catalog.describe().default_split == "own"
    with pytest.raises(ServiceError, match="no split 'test_normal'"):
        catalog.task_ids("test_normal")


def test_appworlds_own_tasks_keep_their_names(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", train="c_1\n", own_train="a_1\n", own_test="b_1\n")
    catalog = catalog_of(tmp_path)
    assert list(catalog.task_ids("train")) == ["c_1"]
    with pytest.raises(ServiceError, match="no split 'dev'"):
        catalog.task_ids("dev")


def test_a_payload_holds_no_ground_truth(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", own="a_1\nb_1\n")
    catalog = catalog_of(tmp_path)
    payload = catalog.payload("a_1")
    assert (payload.grading, payload.max_steps) == ({}, 7)
    assert set(payload.task) == {"id", "category", "max_steps", "max_output", "cell_timeout_s"}
    assert payload.task["category"] == "difficulty 2"
    assert catalog.payload("b_1").task["category"] == "unrated"


def test_the_descriptor_has_the_tool_that_all_tasks_share(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", own_train="a_1")
    (tool,) = catalog_of(tmp_path).describe().tools
    assert tool.function.name == "appworld"
    assert list(tool.function.parameters["properties"]) == ["code"]


def test_references_are_blocks_of_python_where_there_are_any(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", own="a_1\nb_1\n")
    catalog = catalog_of(tmp_path)
    assert [message["content"] for message in catalog.reference("a_1")] == [
        "```python\nx = 1\n```",
        "```python\napis.supervisor.complete_task()\n```",
    ]
    assert list(catalog.reference("b_1")) == []


def test_unknown_splits_and_tasks_are_errors(tmp_path: Path) -> None:
    lay_out(tmp_path / "data", own="a_1\n")
    catalog = catalog_of(tmp_path)
    with pytest.raises(ServiceError, match="there are: own") as split:
        catalog.task_ids("train")
    assert split.value.code is ErrorCode.UNKNOWN_SPLIT
    for read in (catalog.payload, catalog.reference):
        with pytest.raises(ServiceError, match=r"no task '\.\./a_1'") as task:
            read("../a_1")
        assert task.value.code is ErrorCode.UNKNOWN_TASK


@pytest.mark.parametrize("level", ["", "data"], ids=["data", "root"])
def test_the_operators_folder_may_be_the_data_or_what_holds_it(tmp_path: Path, level: str) -> None:
    lay_out(tmp_path / "given" / level, train="a_1\n")
    (tmp_path / "given").chmod(0o750)
    catalog = catalog_of(tmp_path, tmp_path / "given")
    assert list(catalog.task_ids("train")) == ["a_1"]
    assert catalog.spec.provisions is not None
    assert catalog.spec.provisions.data == (tmp_path / "given" / level).resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="without root agents have the service's own user id")
def test_the_operators_folder_must_be_closed_to_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = lay_out(tmp_path / "given", train="a_1\n")
    for folder in (data, *data.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to(tmp_path.parents[1]):
            folder.chmod(0o755)
    with pytest.raises(ServiceError, match=r"open to every user.*chmod 750") as refused:
        catalog_of(tmp_path, data)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    data.chmod(0o750)
    assert list(catalog_of(tmp_path, data).task_ids("train")) == ["a_1"]


def test_data_without_tasks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no AppWorld tasks"):
        catalog_of(tmp_path).describe()
