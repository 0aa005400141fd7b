"""An engine's backend without a model."""

import asyncio

from trainer.engines.generation import Finish, Generation
from trainer.types import VersionSpan


class FakeBackend:
    """Samples zeros, and notes what it is called with."""

    def __init__(self, context=100):
        self.context = context
        self.calls = []
        self.marked = []
        self.requests = []
        self.adapters = []
        self.refuses = None
        self.free = asyncio.Event()
        """Unless it is set, calls that occupy the model and checks of its health wait."""
        self.free.set()
        self.checks = 0

    async def generate(self, request):
        self.requests.append(request)
        count = request.max_tokens
        version = self.marked[-1] if self.marked else 0
        return Generation((0,) * count, (-1.0,) * count, Finish.LENGTH, (VersionSpan(0, count, version),))

    async def score_tokens(self, token_ids, adapter):
        return (0.0,) * len(token_ids)

    async def pause_generation(self, mode):
        pass

    async def resume_generation(self):
        pass

    async def enter_sleep(self, mode):
        self.calls.append(("enter_sleep", mode))
        await self.free.wait()

    async def wake_up(self, part):
        if part == self.refuses:
            raise RuntimeError("no room")
        self.calls.append(("wake_up", part))
        await self.free.wait()

    async def call_engine(self, method, arguments):
        if method == self.refuses:
            raise RuntimeError("no")
        self.calls.append((method, arguments))
        await self.free.wait()
        return (f"of {method}",)

    async def set_weight_version(self, version):
        self.marked.append(version)

    async def load_adapter(self, adapter):
        self.adapters.append(adapter)
        await self.free.wait()

    async def check_health(self):
        self.checks += 1
        await self.free.wait()

    def find_failure(self):
        return None

    def close(self):
        pass
