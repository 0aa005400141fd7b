"""A client of the gateway, without a socket, that reads an answer when the test lets it."""

from __future__ import annotations

import asyncio

from sandbox_service.gateway.app import Gateway


class SlowClient:
    """A connection that takes the head of an answer and some bytes, and the rest when ``reads`` is set."""

    def __init__(self, key: str = "k") -> None:
        self.reads = asyncio.Event()
        self.status = 0
        self.media_type = ""
        self.body = b""
        self.complete = False
        self._key = key

    async def send(self, message: dict) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.media_type = dict(message["headers"]).get(b"content-type", b"").decode()
            return
        if self.body:
            await self.reads.wait()
        self.body += message.get("body", b"")
        self.complete = not message.get("more_body", False)

    async def ask(self, app: Gateway, method: str, path: str, body: bytes = b"") -> None:
        sent = asyncio.Event()

        async def receive() -> dict:
            if sent.is_set():
                return await asyncio.get_running_loop().create_future()
            sent.set()
            return {"type": "http.request", "body": body, "more_body": False}

        headers = [(b"x-api-key", self._key.encode()), (b"host", b"localhost")]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "headers": headers,
        }
        await app({**scope, "query_string": b"", "root_path": ""}, receive, self.send)
