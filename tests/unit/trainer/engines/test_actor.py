import asyncio
import threading

from tests.fakes.model_core import FakeCore
from tests.harness.model_process import idle, started
from trainer.engines import actor as engine_actor
from trainer.engines.actor import EngineActor
from trainer.engines.generation import GenerationRequest, Sampling
from trainer.engines.options import EngineOptions
from trainer.engines.process_exit import end_children
from trainer.types import EpisodeKey, TaskRef

REQUEST = GenerationRequest(EpisodeKey("0.0", TaskRef("e", "s", "t"), 0), (1, 2, 3), 4, Sampling())


class LoopCore(FakeCore):
    """Notes the event loops that it is used in."""

    def __init__(self):
        super().__init__()
        self.loops = set()

    async def generate(self, draw):
        self.loops.add(asyncio.get_running_loop())
        return await super().generate(draw)

    async def check(self):
        self.loops.add(asyncio.get_running_loop())

    async def mark(self, version):
        self.loops.add(asyncio.get_running_loop())
        await super().mark(version)


def test_every_verb_runs_in_the_engines_one_loop_whichever_thread_asks(tmp_path, monkeypatch):
    core = LoopCore()
    monkeypatch.setattr(engine_actor, "open_core", lambda options: core)
    actor = EngineActor(
        EngineOptions(model=tmp_path, device="cpu", dtype="float32", in_process=True, transfer="shared_file")
    )
    asyncio.run(actor.generate(REQUEST))
    groups = [
        threading.Thread(target=lambda: asyncio.run(actor.control("status"))),
        threading.Thread(target=lambda: asyncio.run(actor.generate(REQUEST))),
    ]
    for group in groups:
        group.start()
    for group in groups:
        group.join()
    assert len(core.loops) == 1


def test_an_engine_that_ends_takes_its_processes_along():
    child = started(idle)
    end_children()
    assert not child.is_alive()
