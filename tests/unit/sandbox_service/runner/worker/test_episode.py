"""Evaluations of parts, of which some come with work that another box has exported."""

from __future__ import annotations

import json
from typing import Any

from sandbox_service.runner.worker.episode import WorldEpisode
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.essay_world import EssayWorld

JsonObject = dict[str, Any]


def evaluated(body: JsonObject) -> Frame:
    request = {"environment": "essay", "task_id": "essay-1", "task": {"kind": "verifier"}}
    create = Frame(Op.CREATE, 1, "i", {"seed": 0, "max_steps": 9}, json.dumps(request).encode())
    episode = WorldEpisode(create, EssayWorld, None)
    episode.start(create)
    return episode.evaluate(Frame(Op.EVALUATE, 2, "i", {"deadline_s": 5.0}, json.dumps(body).encode()))


def test_a_world_counts_and_exports_its_parts() -> None:
    assert evaluated({"count_parts": True}).meta["parts"] == 3
    assert json.loads(evaluated({"export_work": {"number": 1}}).body) == {"text": "", "number": 1}


def test_beside_work_of_another_box_nothing_is_counted_or_exported() -> None:
    graded = {"work": {"text": "well"}, "params": {}, "grading": {}, "part": {"number": 1}}
    for planted in ("export_work", "count_parts"):
        details = json.loads(evaluated({**graded, planted: {}}).body)["details"]
        assert details == {"kind": "verifier", "text": "well", "part": {"number": 1}}
