import asyncio
import threading

from tests.fakes.engine_backend import FakeBackend
from tests.harness.model_process import idle, started
from trainer.engines import actor as engine_actor
from trainer.engines.actor import EngineActor, end_children
from trainer.engines.generation import GenerationRequest, Sampling
from trainer.engines.options import EngineOptions
from trainer.types import EpisodeKey, TaskRef

REQUEST = GenerationRequest(EpisodeKey("0.0", TaskRef("e", "s", "t"), 0), (1, 2, 3), 4, Sampling())


class LoopBackend(FakeBackend):
    """Notes the event loops that it is used in."""

    def __init__(self):
        super().__init__()
        self.loops = set()

    async def generate(self, request):
        self.loops.add(asyncio.get_running_loop())
        return await super().generate(request)

    async def check_health(self):
        self.loops.add(asyncio.get_running_loop())

    async def set_weight_version(self, version):
        self.loops.add(asyncio.get_running_loop())
        await super().set_weight_version(version)


def test_every_verb_runs_in_the_engines_one_loop_whichever_thread_asks(tmp_path, monkeypatch):
    backend = LoopBackend()
    monkeypatch.setattr(engine_actor, "open_backend", lambda options: backend)
    actor = EngineActor(
        EngineOptions(model=tmp_path, device="cpu", dtype="float32", in_process=True, transfer="shared_file")
    )
    asyncio.run(actor.generate(REQUEST))
    groups = [
        threading.Thread(target=lambda: asyncio.run(actor.control("get_status"))),
        threading.Thread(target=lambda: asyncio.run(actor.generate(REQUEST))),
    ]
    for group in groups:
        group.start()
    for group in groups:
        group.join()
    assert len(backend.loops) == 1


def test_an_engine_that_ends_takes_its_processes_along():
    child = started(idle)
    end_children()
    assert not child.is_alive()
