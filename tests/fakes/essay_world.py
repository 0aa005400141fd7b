"""A world that is graded elsewhere: another world grades what the agent wrote."""

from __future__ import annotations

from sandbox_service.runner.world import JsonObject, Outcome, Start, Verdict, World


class EssayWorld(World):
    """Keeps what was written; the world of a verifier likes "well"."""

    def start(self) -> Start:
        self.text = ""
        return Start(messages=[{"role": "user", "content": self.task["kind"]}])

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.text = message["content"]
        return Outcome(messages=[], terminated=self.text.startswith("end"))

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        text = grading["work"]["text"]
        return Verdict(float("well" in text), "well" in text, {"kind": self.task["kind"], "text": text})

    def export_work(self) -> JsonObject:
        return {"text": self.text}


WORLD = EssayWorld
