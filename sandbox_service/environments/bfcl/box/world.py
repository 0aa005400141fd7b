"""The BFCL environment's world: one dialogue, graded by the official checkers.

The task that the box is sent names a task of the prepared data. Ground truth comes with each evaluation; only
an episode with rewards of its steps reads it earlier.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from sandbox_service.runner.world import (
    Context,
    JsonObject,
    Outcome,
    Start,
    Verdict,
    World,
    WorldError,
    wants_sparse,
)
from sandbox_service.wire.codes import BoxErrorCode

from .dialogue import Dialogue, read_options
from .memory import MemoryTask
from .single import SingleTurn
from .task_files import TaskFiles
from .turns import MultiTurn


def warm(data: str | None) -> None:
    """Open the prepared data, so that every worker has it."""
    if data is None:
        raise WorldError("bfcl has no data: it is not set up")
    BfclWorld.files = files = TaskFiles(Path(data))
    # Read here, these are shared by all workers; the files are mapped.
    files.warm()
    for ids in files.categories.values():
        for task_id in ids[:2]:
            _rehearse(files, task_id)


def _rehearse(files: TaskFiles, task_id: str) -> None:
    """Play a solution, so that the code is as fast and as settled as it gets before workers are forked."""
    answer = files.answer(task_id)
    limits = {"turn_steps": 100, "strict_irrelevance": False}
    world = BfclWorld({"id": task_id, "limits": limits, "max_steps": 100}, Context("rehearsal", 0))
    json.dumps(dataclasses.asdict(world.start()))
    for step in answer["solution"]:
        calls = [
            {"function": {"name": name, "arguments": arguments}} for name, arguments in step.get("calls", [])
        ]
        world.step({"content": step.get("text"), "tool_calls": calls}, 1.0)
    world.evaluate({}, {"truth": answer["truth"]})


class BfclWorld(World):
    """An episode of a task."""

    files: ClassVar[TaskFiles | None] = None
    """The tasks of this box: opened before the first instance, read by all, and no part of a copy."""

    def start(self) -> Start:
        options = read_options(self.context.params)
        files = self._opened_files()
        try:
            task = files.task(self.task["id"])
        except KeyError:
            raise WorldError(f"the box has no task {self.task['id']!r}") from None
        category = task["category"]
        kind = MemoryTask if "memory" in category else MultiTurn if "multi_turn" in category else SingleTurn
        if options.memory is not None and kind is not MemoryTask:
            raise WorldError("only memory tasks take the parameter memory", BoxErrorCode.INVALID_REQUEST)
        self.category: str = category
        self.dialogue: Dialogue = kind(files, task, self.task["limits"], options)
        self.final_reward = options.final_reward
        start = self.dialogue.open()
        info = {"category": category, "max_steps": self.task["max_steps"], **start.info}
        return Start(start.messages, start.tools, info)

    def _opened_files(self) -> TaskFiles:
        if self.files is None:
            raise WorldError("bfcl has no data: warm() was not called")
        return self.files

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        outcome = self.dialogue.take_turn(message)
        if not (outcome.terminated and self.final_reward):
            return outcome
        truth = self._opened_files().answer(self.task["id"])["truth"]
        return dataclasses.replace(outcome, reward=float(self.dialogue.grade(truth).valid))

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        # The verdict is 1 or 0 either way.
        wants_sparse(params)
        graded = self.dialogue.grade(grading["truth"])
        details = {
            "test_category": self.category,
            "test_id": self.task["id"],
            "valid": graded.valid,
            "accuracy": float(graded.valid),
            "error_type": graded.error_type,
            **graded.details,
        }
        return Verdict(float(graded.valid), graded.valid, details)

    def untouched(self, task: JsonObject) -> Iterator[World]:
        # Checkers see an answer only when every turn has one.
        untouched = BfclWorld(task, self.context)
        untouched.start()
        for _ in range(task["max_steps"]):
            if untouched.dialogue.take_turn({"role": "assistant", "content": "I do not know."}).terminated:
                break
        yield untouched


WORLD = BfclWorld
