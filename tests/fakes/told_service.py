"""A service whose steps are told beforehand: enough for episodes, with every way of failing.

One list of steps serves all instances; each step is a partial result, and an ErrorCode in its place is a
refusal. What a verb should fail with, whatever the instance, is in ``refuses``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from sandbox_client import AsyncSandboxClient, RetryPolicy
from sandbox_contract.problems import ErrorCode, Problem

from .scripted_transport import ScriptedTransport

__all__ = ["TASK_MESSAGES", "ToldService", "observed"]

Json = dict[str, Any]
TASK_MESSAGES = (
    {"role": "system", "content": "You solve a task."},
    {"role": "user", "content": "compute 37 plus 58"},
)


def observed(*contents: str, role: str = "user", **result: object) -> Json:
    """A step's answer: messages of one role, and whatever else the result holds."""
    return {"observation": {"messages": [{"role": role, "content": each} for each in contents]}, **result}


class ToldService:
    """Instances that go through the same steps; call it with a request."""

    def __init__(
        self,
        steps: Sequence[Json | ErrorCode],
        *,
        tools: Sequence[Json] = (),
        messages: Sequence[Json] = TASK_MESSAGES,
        verdict: Mapping[str, object] | None = None,
        refuses: Mapping[str, ErrorCode] | None = None,
        info: Mapping[str, object] | None = None,
    ) -> None:
        self.steps = list(steps)
        self.tools = list(tools)
        self.messages = list(messages)
        self.verdict = dict(verdict or {"score": 1.0, "success": True})
        self.refuses = dict(refuses or {})
        self.info = dict(info or {})
        self.live: dict[str, int] = {}
        self.requests: list[tuple[str, Json]] = []
        """Verb and body, in order."""
        self._serial = itertools.count()

    def client(self, **transport: Any) -> AsyncSandboxClient:
        """A client of this service that does not try twice."""
        return AsyncSandboxClient(
            "http://service",
            transport=ScriptedTransport(self, **transport),
            retry=RetryPolicy(attempts=1, total_s=0.0),
        )

    def bodies(self, verb: str) -> list[Json]:
        """Return the bodies of the requests of one verb."""
        return [body for asked, body in self.requests if asked == verb]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition("/")[2]
        body = json.loads(request.content)
        self.requests.append((verb, body))
        code = self.refuses.get(verb)
        answer = code if code is not None else getattr(self, f"_{verb}")(body)
        if isinstance(answer, ErrorCode):
            problem = Problem.of(answer, retry_after_s=2.5 if answer is ErrorCode.QUOTA_EXCEEDED else None)
            return httpx.Response(problem.status, json=problem.model_dump(mode="json"))
        return httpx.Response(200, json=answer)

    def _create_instance(self, body: Json) -> Json:
        instance_id = f"i{next(self._serial)}"
        self.live[instance_id] = 0
        return {
            "instance_id": instance_id,
            "environment": body["environment"],
            "task_id": body["task_id"],
            "observation": {"messages": self.messages},
            "tools": self.tools,
            "info": self.info,
        }

    def _step(self, body: Json) -> Json | ErrorCode:
        index = self.live[body["instance_id"]]
        answer = self.steps[index]
        if isinstance(answer, ErrorCode):
            return answer
        self.live[body["instance_id"]] += 1
        common = {"instance_id": body["instance_id"], "step_index": index, "reward": 0.0}
        return {**common, "terminated": False, "truncated": False, **answer}

    def _fork_instance(self, body: Json) -> Json:
        index = self.live[body["instance_id"]]
        copies = [f"i{next(self._serial)}" for _ in range(body.get("count", 1))]
        self.live |= dict.fromkeys(copies, index)
        return {"instance_id": body["instance_id"], "instance_ids": copies, "step_index": index}

    def _evaluate(self, body: Json) -> Json:
        return {"instance_id": body["instance_id"], **self.verdict}

    def _release_instance(self, body: Json) -> Json:
        released = self.live.pop(body["instance_id"], None) is not None
        return {"instance_id": body["instance_id"], "released": released}
