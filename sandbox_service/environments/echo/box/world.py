"""A world that repeats its input: pure data, for benchmarks, tests and first contact."""

from __future__ import annotations

from sandbox_service.runner.world import JsonObject, Outcome, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode


class EchoWorld(World):
    """Repeats each message; the score is the share of the wanted number of steps."""

    def start(self) -> Start:
        if self.context.params:
            raise WorldError(
                f"echo has no parameter {sorted(self.context.params)[0]!r}", BoxErrorCode.INVALID_REQUEST
            )
        self.steps_taken = 0
        info: JsonObject = {key: self.task[key] for key in ("category", "max_steps") if key in self.task}
        info["texts"] = "last" if self.task.get("steps") == 1 else "dialogue"
        return Start(messages=[{"role": "user", "content": str(self.task["prompt"])}], info=info)

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.steps_taken += 1
        done = self.steps_taken >= int(self.task["steps"])
        reply = {"role": "user", "content": message.get("content") or ""}
        return Outcome(messages=[reply], reward=float(done), terminated=done)

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        sparse = wants_sparse(params)
        score = min(1.0, self.steps_taken / int(self.task["steps"]))
        success = score >= 1.0
        return Verdict(
            score=float(success) if sparse else score, success=success, details={"steps": self.steps_taken}
        )


WORLD = EchoWorld
