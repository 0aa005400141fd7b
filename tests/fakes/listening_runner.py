"""A runner in the test's own process: it greets, answers, and breaks in the ways a runner can."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from sandbox_service.wire.frames import Decoder, Frame, Op


class ListeningRunner:
    """Answers STEP with its body, RESET with ``clean``, and never answers PING."""

    def __init__(self, refuses: str | None = None, clean: bool = True) -> None:
        self.refuses = refuses
        self.clean = clean
        self.hellos: list[Frame] = []
        self.frames: list[Frame] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, path) -> None:
        self._server = await asyncio.start_unix_server(self._serve, path)

    def hang_up(self) -> None:
        """Break every connection, and go on listening."""
        for writer in self._writers:
            writer.transport.abort()

    def die(self) -> None:
        """Stop listening and break every connection."""
        if self._server is not None:
            self._server.close()
        self.hang_up()

    def tell(self, frame: Frame) -> None:
        for writer in self._writers:
            writer.write(frame.encode())

    async def _serve(self, reader, writer) -> None:
        self._writers.add(writer)
        decoder = Decoder()
        try:
            while data := await reader.read(65536):
                for frame in decoder.feed(data):
                    self.frames.append(frame)
                    if (answer := self._answer(frame)) is not None:
                        writer.write(answer.encode())
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: Frame) -> Frame | None:
        if frame.op is Op.HELLO:
            self.hellos.append(frame)
            return frame.error("sandbox_failed", self.refuses) if self.refuses else frame.reply()
        if frame.op is Op.RESET:
            return frame.reply(meta={"clean": self.clean, "left": []})
        return None if frame.op is Op.PING else frame.reply(frame.body)


@asynccontextmanager
async def listening(path, **settings):
    runner = ListeningRunner(**settings)
    await runner.listen(path)
    try:
        yield runner
    finally:
        runner.die()
        await asyncio.sleep(0)


def configuration(runner: ListeningRunner) -> dict[str, object]:
    return json.loads(runner.hellos[0].body)
