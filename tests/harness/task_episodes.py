"""Episodes of a catalog's tasks in a real runner, played to the end and graded."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox_service.wire.frames import Op

from .runner_box import RunnerBox, error_code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_service.environments.base import Catalog

_numbers = itertools.count(1)


@dataclass
class Played:
    """An episode that is over."""

    opening: dict[str, Any]
    steps: list[dict[str, Any]]
    verdict: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """Texts that the agent was told, one a step."""
        messages = [step["observation"]["messages"] for step in self.steps]
        return ["\n".join(message["content"] for message in each) for each in messages]

    @property
    def graded(self) -> tuple[float, bool]:
        """Score and success."""
        return self.verdict["score"], self.verdict["success"]


def play(box: RunnerBox, catalog: Catalog, task_id: str, messages: Iterable[Any], **params: Any) -> Played:
    """Play messages, texts among them, as far as the episode goes; evaluate twice, and release."""
    payload, name = catalog.payload(task_id), f"episode-{next(_numbers)}"
    opening = _reply(box, Op.CREATE, name, _creation(catalog, task_id, params))
    steps: list[dict[str, Any]] = []
    for message in messages:
        message = {"role": "assistant", "content": message} if isinstance(message, str) else message
        steps.append(_reply(box, Op.STEP, name, {"message": message}))
        if steps[-1]["terminated"] or steps[-1]["truncated"]:
            break
    verdicts = [_reply(box, Op.EVALUATE, name, {"params": {}, "grading": payload.grading}) for _ in range(2)]
    assert verdicts[0] == verdicts[1]
    assert box.release(name)
    return Played(opening, steps, verdicts[0])


def refusal(box: RunnerBox, catalog: Catalog, task_id: str, **params: Any) -> str:
    """The error code with which the box refuses to create an instance."""
    name = f"episode-{next(_numbers)}"
    frame = box.request(Op.CREATE, name, meta=_META, body=_creation(catalog, task_id, params))
    return error_code(frame)


_META = {"deadline_s": 90, "seed": 1, "max_steps": 1000}


def _creation(catalog: Catalog, task_id: str, params: dict[str, Any]) -> dict[str, Any]:
    task = catalog.payload(task_id).task
    return {"environment": catalog.spec.name, "task_id": task_id, "task": task, "params": params}


def _reply(box: RunnerBox, operation: Op, name: str, body: dict[str, Any]) -> dict[str, Any]:
    frame = box.request(operation, name, meta=_META, body=body)
    assert frame.op is Op.REPLY, frame.body
    answer: dict[str, Any] = json.loads(frame.body)
    return answer
