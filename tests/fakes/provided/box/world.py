"""A world with a package and data of its own, in a box where agent code runs."""

from pathlib import Path

import tinylore

from sandbox_service.runner.world import Outcome, Start, Verdict, World

LORE = {}


def warm(data):
    LORE["data"] = (Path(data) / "secret.txt").read_text()
    LORE["folders"] = [str(Path(tinylore.__file__).parent), data]


class ProvidedWorld(World):
    def start(self):
        return Start([{"role": "user", "content": f"{tinylore.NAME}: {LORE['data']}"}], info=LORE)

    def step(self, message, timeout_s):
        execution = self.context.agent.python(message["content"], min(20.0, timeout_s))
        return Outcome([{"role": "user", "content": execution.output}])

    def evaluate(self, params, grading):
        return Verdict(1.0, True)


WORLD = ProvidedWorld
