"""The five verbs of an echo environment behind one function: enough of a service for the clients' own tests.

It keeps the promises that the clients lean on: one execution a key, a step index that must fit, copies with a
life of their own, one result an operation of a batch.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import httpx

from sandbox_contract.problems import ErrorCode, Problem

Body = dict[str, object]


class RefusedError(Exception):
    """A problem in place of a result."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(code)
        self.problem = Problem.of(code, detail)


class EchoService:
    """Instances that repeat what they are told; call it with a request."""

    def __init__(self, steps: int = 3) -> None:
        self.steps = steps
        self.live: dict[str, int] = {}
        self.released: list[str] = []
        self.executions: dict[str, int] = {}
        self.calls: list[str] = []
        self._answers: dict[str, Body] = {}
        self._serial = itertools.count()
        self._verbs: dict[str, Callable[[Body], Body]] = {
            "create_instance": self._create,
            "step": self._step,
            "evaluate": self._evaluate,
            "release_instance": self._release,
            "fork_instance": self._fork,
        }

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition("/")[2]
        self.calls.append(verb)
        body = json.loads(request.content)
        if verb == "batch":
            results = [self._outcome(item["operation"], item["request"]) for item in body["operations"]]
            return httpx.Response(200, json={"results": results})
        outcome = self._outcome(verb, body)
        return httpx.Response(int(str(outcome["status"])), json=outcome["body"])

    def _outcome(self, verb: str, body: Body) -> Body:
        try:
            return {"status": 200, "body": self._once(verb, body)}
        except RefusedError as refusal:
            problem = refusal.problem
            return {"status": problem.status, "body": problem.model_dump(mode="json")}

    def _once(self, verb: str, body: Body) -> Body:
        key = str(body.get("idempotency_key"))
        if key not in self._answers:
            self._answers[key] = self._verbs[verb](body)
            self.executions[key] = self.executions.get(key, 0) + 1
        return self._answers[key]

    def _create(self, body: Body) -> Body:
        if body["environment"] != "echo":
            raise RefusedError(ErrorCode.UNKNOWN_ENVIRONMENT)
        instance_id = f"i{next(self._serial)}"
        self.live[instance_id] = 0
        observation = {"messages": [{"role": "user", "content": "Say something."}]}
        return {**body, "instance_id": instance_id, "observation": observation, "info": {"level": "easy"}}

    def _step(self, body: Body) -> Body:
        instance_id = self._known(body)
        index = self.live[instance_id]
        if body.get("step_index", index) != index:
            raise RefusedError(ErrorCode.STEP_INDEX_MISMATCH, f"the instance is at step {index}")
        if index >= self.steps:
            raise RefusedError(ErrorCode.INSTANCE_FINISHED)
        self.live[instance_id] += 1
        done = index + 1 == self.steps
        message = body["message"]
        assert isinstance(message, dict)
        observation = {"messages": [{"role": "user", "content": message["content"]}]}
        return {
            "instance_id": instance_id,
            "step_index": index,
            "observation": observation,
            "reward": float(done),
            "terminated": done,
            "truncated": False,
        }

    def _evaluate(self, body: Body) -> Body:
        instance_id = self._known(body)
        score = self.live[instance_id] / self.steps
        return {"instance_id": instance_id, "score": score, "success": score == 1.0}

    def _release(self, body: Body) -> Body:
        instance_id = str(body["instance_id"])
        existed = self.live.pop(instance_id, None) is not None
        if existed:
            self.released.append(instance_id)
        return {"instance_id": instance_id, "released": existed}

    def _fork(self, body: Body) -> Body:
        instance_id = self._known(body)
        copies = [f"i{next(self._serial)}" for _ in range(int(str(body.get("count", 1))))]
        self.live.update(dict.fromkeys(copies, self.live[instance_id]))
        return {"instance_id": instance_id, "instance_ids": copies, "step_index": self.live[instance_id]}

    def _known(self, body: Body) -> str:
        instance_id = str(body["instance_id"])
        if instance_id not in self.live:
            raise RefusedError(ErrorCode.UNKNOWN_INSTANCE)
        return instance_id
