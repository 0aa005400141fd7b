"""Requests end at their time limit, however late they are known where they are aborted."""

import asyncio

from trainer.engines.time_limit import aborted_after


class Server:
    """Knows a request after so many aborts, and ends it at the next one."""

    def __init__(self, known_after):
        self.known_after = known_after
        self.aborts = 0
        self.ended = asyncio.Event()

    async def abort(self):
        self.aborts += 1
        if self.aborts > self.known_after:
            self.ended.set()


async def test_a_request_is_aborted_until_it_has_ended():
    server = Server(known_after=3)
    async with aborted_after(0.0, server.abort, every_s=0.001):
        await asyncio.wait_for(server.ended.wait(), 30)
    aborts = server.aborts
    await asyncio.sleep(0.02)
    assert server.aborts == aborts >= 4


async def test_a_request_without_a_limit_or_within_it_is_not_aborted():
    server = Server(known_after=0)
    async with aborted_after(None, server.abort, every_s=0.001):
        await asyncio.sleep(0.01)
    async with aborted_after(0.01, server.abort):
        pass
    await asyncio.sleep(0.02)
    assert server.aborts == 0
