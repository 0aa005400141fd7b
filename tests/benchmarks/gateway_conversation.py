"""One conversation of an agent, recorded by splice and by render."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sandbox_contract.messages import FunctionSchema, Message, Tool
from tests.harness.template_families import template_text
from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig
from trainer.engines.generation import Finish, Generation, GenerationRequest, Sampling
from trainer.model_gateway.budget import SessionLimits
from trainer.model_gateway.calls import ModelCall
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.recording import Recording
from trainer.model_gateway.session import Session
from trainer.types import EpisodeKey, TaskRef, VersionSpan

SYSTEM = "You repair programs. Look before you change anything."
TASK = "The tests of the module parse fail for empty lines. Repair it."
TURNS = (
    ("I have not seen the module yet.", "read_file", '{"path": "src/parse/lines.py"}', "1  return line[0]"),
    ("line[0] fails for an empty line.", "write_file", '{"text": "return line[:1]"}', "written"),
    ("Now the tests should pass.", "run", '{"command": "pytest tests/parse"}', "12 passed"),
)
END = "<think>\nAll tests pass.\n</think>\n\nEmpty lines are parsed now."
TOOLS = tuple(
    Tool(function=FunctionSchema(name=name, parameters={"type": "object"}))
    for name in ("read_file", "write_file", "run")
)
_KEY = EpisodeKey("0.0", TaskRef("benchmark", "", ""), 0)


class Script:
    """A policy that says the turns one after another."""

    def __init__(self, chat: ChatTokenizer) -> None:
        texts = [
            f'<think>\n{thought}\n</think>\n\n<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n'
            "</tool_call>"
            for thought, name, arguments, _ in TURNS
        ]
        self._turns = [tuple(chat.turn(text)) for text in (*texts, END)]

    async def generate(self, request: GenerationRequest) -> Generation:
        ids = self._turns[request.key.turn]
        return Generation(ids, (-0.5,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 1),))


def conversation(folder: Path, template: str = "qwen3") -> dict[str, Any]:
    """Record it both ways, with a model's tokenizer and the chat template of a model that thinks."""
    with TemporaryDirectory() as place:
        file = Path(place) / "template.jinja"
        file.write_text(template_text(template), encoding="utf-8")
        chat = ChatTokenizer(folder, ChatConfig(template=file, tool_format="hermes"))
        recorded = {policy: asyncio.run(_recorded(chat, policy)) for policy in PromptPolicy}
    figures = {policy.value: _figures(recording) for policy, recording in recorded.items()}
    splice, render = figures["splice"], figures["render"]
    return {
        "template": template,
        **figures,
        "difference": {name: render[name] - splice[name] for name in splice if name != "breaks"},
    }


async def _recorded(chat: ChatTokenizer, policy: PromptPolicy) -> Recording:
    """Hold the conversation as an SDK does: the answer is repeated without its thoughts."""
    limits = SessionLimits(turns=10, context_tokens=8192, turn_tokens=1024)
    session = Session(_KEY, Script(chat), chat, Sampling(), limits, prompts=policy)
    messages = [Message(role="system", content=SYSTEM), Message(role="user", content=TASK)]
    for *_, result in TURNS:
        said = (await session.answer(ModelCall("policy", tuple(messages), TOOLS))).message
        (asked,) = said.tool_calls or ()
        repeated = said.model_copy(update={"reasoning_content": None})
        messages += [repeated, Message(role="tool", tool_call_id=asked.id, content=result)]
    await session.answer(ModelCall("policy", tuple(messages), TOOLS))
    return await session.close()


def _figures(recording: Recording) -> dict[str, Any]:
    return {
        "sequences": len(recording.segments),
        "tokens": sum(len(segment.token_ids) for segment in recording.segments),
        "trained_tokens": sum(sum(segment.loss_mask) for segment in recording.segments),
        "breaks": [call.because.value for call in recording.calls],
    }
