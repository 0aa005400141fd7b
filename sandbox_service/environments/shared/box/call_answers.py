"""Answer tool calls in the form that they came in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

    from .calls import ParsedCall


def answered(calls: Sequence[ParsedCall], texts: Sequence[str]) -> list[JsonObject]:
    """Return tool messages for native calls; one user message for calls in plain text."""
    pairs = list(zip(calls, texts, strict=True))
    if calls[0].native:
        return [
            {"role": "tool", "tool_call_id": call.call_id, "name": call.name, "content": text}
            for call, text in pairs
        ]
    blocks = [
        f"<tool_response>\n{json.dumps({'name': call.name, 'content': text})}\n</tool_response>"
        for call, text in pairs
    ]
    return [{"role": "user", "content": "\n".join(blocks)}]
