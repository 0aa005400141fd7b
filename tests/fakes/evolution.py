"""Phases of an evolution that are made up, and a listener that remembers what it was told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from tests.fakes.training import evaluation
from trainer.batches.payloads import group_to_json
from trainer.evaluate.results import TaskOutcome
from trainer.evolve.records import BaseModel, Trained
from trainer.sft.warm_start import read_played, write_played
from trainer.types import (
    GroupSpec,
    Line,
    Segment,
    StopReason,
    TaskRef,
    Trajectory,
    TrajectoryGroup,
    Turn,
    VersionSpan,
)


def episode(place="0.0", score=1.0, text="print(1)", task="t0"):
    """A graded episode of one turn."""
    turn = Turn(2, 4, (VersionSpan(2, 4, 0),))
    segment = Segment((7, 8, 9, 1), (False, False, True, True), (0.0, 0.0, -0.1, -0.2), (turn,))
    return Trajectory(
        id=place,
        task=TaskRef("code", "train", task),
        seed=3,
        segments=(segment,),
        stop=StopReason.TERMINATED,
        score=score,
        success=score == 1.0,
        lines=(Line("user", "Compute."), Line("assistant", text)),
    )


@dataclass
class FakePhases:
    """Implements ``PhaseRunner``: each model has the held-out success that it was told."""

    successes: list[int]
    """Held-out tasks that the models solve, of ten: the base model's first."""
    scores: list[float] = field(default_factory=lambda: [1.0, 0.0])
    """Scores of the episodes of each exploration."""
    interrupted_in: str = ""
    """The phase, such as ``1.train``, that an interrupt ends once."""
    lost_in: str = ""
    """The phase, such as ``1.evaluate``, in which tasks get no verdict once."""
    lost_tasks: int = 10
    """The number of those tasks, of ten: the first ones."""
    demonstrations: int = 0
    calls: list[tuple[str, ...]] = field(default_factory=list)
    trained_on: dict[int, list[str]] = field(default_factory=dict)
    """Ids of the episodes of each iteration, or tasks of its preferences."""
    weights: dict[int, list[float]] = field(default_factory=dict)
    """Weights of those episodes."""
    attempts: list[float] = field(default_factory=list)
    """Scores of further episodes of each task."""

    def prepare_base(self, folder):
        self._begin("0.base")
        file = folder.path / "demonstrations.jsonl"
        write_played(file, [episode(f"d{place}", task=f"d{place}") for place in range(self.demonstrations)])
        return BaseModel("raw", "base", str(file) if self.demonstrations else None)

    def explore(self, folder, model):
        self._begin(f"{folder.number}.explore", str(model))
        groups = [
            TrajectoryGroup(
                GroupSpec(place, TaskRef("code", "train", f"t{place}"), 0, 1, 3),
                tuple(
                    episode(
                        f"{place}.{member}",
                        each,
                        f"{folder.number} {member}" if member else f"{folder.number}",
                        f"t{place}",
                    )
                    for member, each in enumerate([score, *self.attempts])
                ),
            )
            for place, score in enumerate(self.scores)
        ]
        file = folder.path / "groups.jsonl"
        file.write_bytes(b"".join(group_to_json(group) + b"\n" for group in groups))
        return file

    def train(self, folder, start):
        self._begin(f"{folder.number}.train", str(start))
        if folder.preferences.exists():
            rows = map(json.loads, folder.preferences.read_text().splitlines())
            self.trained_on[folder.number] = [row["task_id"] for row in rows]
        else:
            played = read_played(folder.data)
            self.trained_on[folder.number] = [each.id for each in played]
            self.weights[folder.number] = [each.weight for each in played]
        return Trained(f"model {folder.number}", str(start), 5)

    def evaluate(self, folder, model):
        phase = f"{folder.number}.evaluate"
        self._begin(phase, str(model))
        result = evaluation("alone", self.successes[folder.number])
        if phase != self.lost_in:
            return result
        self.lost_in = ""
        lost = result.tasks[: self.lost_tasks]
        failed = (TaskOutcome(each.task_id, each.difficulty, 0, 0, 0.0, failures=1) for each in lost)
        return replace(result, tasks=(*failed, *result.tasks[self.lost_tasks :]))

    def _begin(self, phase, *arguments):
        if phase == self.interrupted_in:
            self.interrupted_in = ""
            raise KeyboardInterrupt
        self.calls.append((phase, *arguments))


@dataclass
class FakeEvolutionListener:
    """Implements ``EvolutionListener``."""

    told: list[tuple[object, ...]] = field(default_factory=list)

    def begin_phase(self, number, phase, detail):
        self.told.append((number, phase, detail))

    def note_played(self, done, total):
        self.told.append(("played", done, total))

    def note_step(self, step, metrics):
        self.told.append(("step", step))

    def note_warning(self, sentence):
        self.told.append(("warning", sentence))

    def end_iteration(self, number, evaluation, decision):
        self.told.append((number, "end", decision and decision.kept))
