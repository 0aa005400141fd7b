"""The trainer's side of an agent's episode, told what to answer: a handler for httpx.MockTransport."""

from __future__ import annotations

import json
from typing import Any

import httpx

from sandbox_contract.problems import ErrorCode, Problem

__all__ = ["KEY", "URL", "AgentRoutes", "task"]

KEY = "sk-one"
URL = "http://trainer/episode"
TOOL = {"type": "function", "function": {"name": "submit", "description": "", "parameters": {}}}


class AgentRoutes:
    """Answers steps in turn; an ErrorCode in the list is a refusal."""

    def __init__(self, *steps: dict[str, Any] | ErrorCode) -> None:
        self.steps = list(steps)
        self.sent: list[dict[str, Any]] = []
        """Bodies of steps, and of the end."""
        self.fetched = 0
        """Requests for the task."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"] != f"Bearer {KEY}":
            return _problem(ErrorCode.UNAUTHENTICATED)
        if request.method == "GET":
            self.fetched += 1
            return httpx.Response(200, json=task())
        self.sent.append(json.loads(request.content))
        if request.url.path.endswith("/end"):
            return httpx.Response(204)
        answer = self.steps.pop(0)
        return _problem(answer) if isinstance(answer, ErrorCode) else httpx.Response(200, json=answer)


def task() -> dict[str, Any]:
    """The task of an agent at its start."""
    return {
        "base_url": "http://trainer/v1",
        "model": "policy",
        "episode_url": URL,
        "messages": [
            {"role": "system", "content": "You solve a task."},
            {"role": "user", "content": "compute 37 plus 58"},
        ],
        "tools": [TOOL],
        "info": {"difficulty": "easy"},
    }


def _problem(code: ErrorCode) -> httpx.Response:
    problem = Problem.of(code)
    return httpx.Response(problem.status, json=problem.model_dump(mode="json"))
