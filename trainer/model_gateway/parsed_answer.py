"""Parse the answer to a call: the part of the generation that counts, and its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.chat.thoughts import thought_before

from .first_call import cut_after_first_call
from .stop_texts import Cut, cut_at

if TYPE_CHECKING:
    from sandbox_contract.messages import Message
    from trainer.chat import ChatTokenizer
    from trainer.engines.generation import Generation

    from .calls import ModelCall


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The part of a generation that counts, and its message."""

    cut: Cut
    message: Message
    """With thoughts apart."""
    drifted: bool | None
    """Whether its text would be tokenized to other tokens; None where it was not checked."""
    dropped: int
    """Tool calls after the first one, where the agent asked for one at a time."""


def parse_answer(
    chat: ChatTokenizer, call: ModelCall, head: Sequence[int], generation: Generation, *, checked: bool
) -> ParsedAnswer:
    """Return the answer to a call. Without tools, as behind ``tool_choice="none"``, it has no tool calls.

    Args:
        chat: the model's tokenizer and tool format.
        call: says at which texts the answer ends, and how many tool calls it may have.
        head: the last tokens of the prompt.
        generation: what was sampled.
        checked: whether it is checked for drift.
    """
    cut = cut_at(generation, call.stop, chat.said)
    # JSON that an agent asked for is the notation of calls in some families.
    message, dropped = chat.parse(cut.text, tools=call.tools, prompt=head, calls=bool(call.tools)), 0
    if call.one_tool_call:
        first = cut_after_first_call(chat, cut, message, call.tools, head)
        cut, message, dropped = first.cut, first.message, first.dropped
    drifted = chat.drifted(head, cut.generation.token_ids) if checked else None
    thought, said = thought_before(message.content or "")
    if thought is not None:
        message = message.model_copy(update={"content": said or None, "reasoning_content": thought})
    return ParsedAnswer(cut, message, drifted, dropped)
