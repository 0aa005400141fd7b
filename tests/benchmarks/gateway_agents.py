"""Agents that hold a conversation with tools in one of three dialects, over plain HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

TOOLS = (
    ("read_file", "Return the text of a file.", ("path",)),
    ("run", "Run a shell command and return what it prints.", ("command", "seconds")),
    ("write_file", "Replace the text of a file.", ("path", "text")),
)
SYSTEM = (
    "You repair programs. Look before you change anything, run the tests, and say when you are done. " * 4
)
TASK = "The tests of the module `parse` fail for empty lines. Find out why, and repair it. " * 6
RESULT = "".join(f"{line:4d}  value = table.get(key, default)  # line {line}\n" for line in range(12))
ANSWER = (
    "I look at the module first, to see how it treats a line that has nothing in it.\n"
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "src/parse/lines.py"}}\n</tool_call>'
)
"""The text that the stub model writes each time."""
DIALECTS = ("chat", "responses", "messages")
_MOST_TOKENS = 256


@dataclass
class Agent:
    """One session's agent. Bodies are encoded before the clock starts, and answers parsed behind it."""

    http: aiohttp.ClientSession
    url: str
    api_key: str
    session: str = ""
    dialect: str = "chat"
    items: list[Any] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each call."""
    sent: list[bytes] = field(default_factory=list)
    """The body of each call."""

    def __post_init__(self) -> None:
        said = [{"role": "user", "content": TASK}]
        self.items = said if self.dialect == "messages" else [{"role": "system", "content": SYSTEM}, *said]

    async def call(self) -> None:
        """Ask the model for the next turn, and answer its tool call."""
        path, body = self._request()
        encoded = json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        began = time.perf_counter()
        async with self.http.post(self.url + path, data=encoded, headers=headers) as answer:
            text = await answer.read()
        self.seconds.append(time.perf_counter() - began)
        self.sent.append(encoded)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {text[:300]!r}")
        self._continue(json.loads(text))

    def _request(self) -> tuple[str, dict[str, Any]]:
        tools: list[dict[str, Any]]
        if self.dialect == "messages":
            tools = [{"name": n, "description": d, "input_schema": _schema(p)} for n, d, p in TOOLS]
            body: dict[str, Any] = {
                "messages": self.items,
                "system": SYSTEM,
                "tools": tools,
                "max_tokens": _MOST_TOKENS,
            }
            return "/v1/messages", body | {"model": "policy"}
        if self.dialect == "responses":
            tools = [
                {"type": "function", "name": n, "description": d, "parameters": _schema(p), "strict": False}
                for n, d, p in TOOLS
            ]
            return "/v1/responses", {"model": "policy", "input": self.items, "tools": tools, "store": False}
        tools = [
            {"type": "function", "function": {"name": n, "description": d, "parameters": _schema(p)}}
            for n, d, p in TOOLS
        ]
        return "/v1/chat/completions", {"model": "policy", "messages": self.items, "tools": tools}

    def _continue(self, answer: Mapping[str, Any]) -> None:
        if self.dialect == "messages":
            used = [block for block in answer["content"] if block["type"] == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": RESULT} for block in used
            ]
            self.items += [
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": results},
            ]
        elif self.dialect == "responses":
            self.items += answer["output"]
            self.items += [
                {"type": "function_call_output", "call_id": item["call_id"], "output": RESULT}
                for item in answer["output"]
                if item["type"] == "function_call"
            ]
        else:
            message = answer["choices"][0]["message"]
            self.items.append(message)
            self.items += [
                {"role": "tool", "tool_call_id": call["id"], "content": RESULT}
                for call in message["tool_calls"]
            ]


def _schema(names: tuple[str, ...]) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": f"The {name}."} for name in names}
    return {"type": "object", "properties": properties, "required": [names[0]]}
