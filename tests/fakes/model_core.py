"""What runs the model, without one."""

from trainer.engines.generation import Finish, Generation
from trainer.types import VersionSpan


class FakeCore:
    """Samples zeros, and notes what it is called with."""

    def __init__(self, context=100):
        self.context = context
        self.calls = []
        self.marked = []
        self.drawn = []
        self.adapters = []
        self.refuses = None

    async def generate(self, draw):
        self.drawn.append(draw)
        count = draw.max_tokens
        version = self.marked[-1] if self.marked else 0
        return Generation((0,) * count, (-1.0,) * count, Finish.LENGTH, (VersionSpan(0, count, version),))

    async def score(self, token_ids, adapter):
        return (0.0,) * len(token_ids)

    async def pause(self, mode):
        pass

    async def resume(self):
        pass

    async def sleep(self, mode):
        self.calls.append(("sleep", mode))

    async def wake(self, part):
        if part == self.refuses:
            raise RuntimeError("no room")
        self.calls.append(("wake", part))

    async def call(self, method, arguments):
        if method == self.refuses:
            raise RuntimeError("no")
        self.calls.append((method, arguments))
        return (f"of {method}",)

    async def mark(self, version):
        self.marked.append(version)

    async def add_adapter(self, adapter):
        self.adapters.append(adapter)

    async def check(self):
        pass

    def failure(self):
        return None

    def close(self):
        pass
