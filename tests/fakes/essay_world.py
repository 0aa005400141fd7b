"""A world that is graded elsewhere: other worlds grade what the agent wrote, perhaps in parts."""

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
        text = grading["work"]["text"] if "work" in grading else self.text
        details = {"kind": self.task["kind"], "text": text}
        if "marked" in grading:
            details["marked"] = grading["marked"]
        if grading.get("part"):
            details["part"] = grading["part"]
        return Verdict(float(_is_liked(details)), _is_liked(details), details)

    def export_work(self, part: JsonObject) -> JsonObject:
        return {"text": self.text, **part}

    def count_parts(self) -> int:
        return 3


def _is_liked(details: JsonObject) -> bool:
    return "well" in details["text"]


WORLD = EssayWorld
