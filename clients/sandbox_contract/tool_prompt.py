"""Render tools as text, for models and protocols that have no field for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

__all__ = ["tool_prompt"]

_TOOLS = """\
# Tools

You may call one or more functions. Their signatures are within <tools></tools>:
<tools>
{tools}
</tools>

For each call give a JSON object with the function's name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": "<function>", "arguments": {{...}}}}
</tool_call>"""


def tool_prompt(tools: Iterable[JsonValue]) -> str:
    """Return the paragraph of a system prompt that describes tools in OpenAI's form and how to call them.

    The notation is the one that environments read in an assistant's plain content.
    """
    return _TOOLS.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools))
