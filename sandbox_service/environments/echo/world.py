"""A world that repeats what it is told: pure data, for benchmarks, tests and first contact."""

from __future__ import annotations

from typing import ClassVar

from sandbox_service.runner.world import JsonObject, Outcome, Start, Verdict, World

__all__ = ["WORLD"]


class EchoWorld(World):
    """Repeats each message; the score is the share of the wanted number of steps."""

    many_per_worker: ClassVar[bool] = True

    def start(self) -> Start:
        self.heard = 0
        return Start(messages=[{"role": "user", "content": str(self.task["prompt"])}])

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.heard += 1
        done = self.heard >= int(self.task["steps"])
        reply = {"role": "user", "content": message.get("content") or ""}
        return Outcome(messages=[reply], reward=float(done), terminated=done)

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        score = min(1.0, self.heard / int(self.task["steps"]))
        return Verdict(score=score, success=score >= 1.0, details={"steps": self.heard})


WORLD = EchoWorld
