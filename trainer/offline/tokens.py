"""Tokenize recorded conversations as an episode does: the opening once, then turn by turn.

The tokens of a turn are those that the model would have to sample, its stop token included, and are the only
ones in the loss. What lies between turns is rendered by the chat template, as in a rollout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.chat.forms import calls_apart
from trainer.tool_answers import numbered
from trainer.types import Sample

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool
    from trainer.chat import ChatTokenizer


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Tokens ``[start, end)`` of a conversation are a turn, or one of several calls of a turn."""

    start: int
    end: int
    number: int
    """The turn's number in the conversation."""
    trained: bool


@dataclass(frozen=True, slots=True)
class TokenizedConversation:
    """The tokens of a conversation up to the end of its last turn."""

    token_ids: tuple[int, ...]
    turns: tuple[TurnSpan, ...]

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def has_loss(self) -> bool:
        """Whether it has a turn to train on."""
        return any(turn.trained for turn in self.turns)

    def cut(self, limit: int) -> TokenizedConversation:
        """Return the conversation up to its last turn that ends within ``limit`` tokens."""
        beyond = next((turn.number for turn in self.turns if turn.end > limit), len(self.turns))
        kept = tuple(turn for turn in self.turns if turn.number < beyond)
        return TokenizedConversation(self.token_ids[: kept[-1].end] if kept else (), kept)

    def sample(self, name: str, group: int, *, weight: float = 1.0, preferred: bool | None = None) -> Sample:
        """Return the row to train on."""
        length = len(self.token_ids)
        mask_T = np.zeros(length, dtype=np.bool_)
        turns_T = np.full(length, -1, dtype=np.int32)
        for turn in self.turns:
            turns_T[turn.start : turn.end] = turn.number
            mask_T[turn.start : turn.end] = turn.trained
        mask_T[:1] = False  # nothing comes before the first token, so it has no probability
        return Sample(
            id=name,
            trajectory_id=name,
            group=group,
            token_ids_T=np.array(self.token_ids, dtype=np.int32),
            mask_T=mask_T,
            logprobs_T=np.zeros(length, dtype=np.float32),
            rewards_T=np.zeros(length, dtype=np.float32),
            turns_T=turns_T,
            versions_T=np.full(length, -1, dtype=np.int32),
            weight=weight,
            preferred=preferred,
        )


def tokenize_conversation(
    chat: ChatTokenizer,
    prompt: Sequence[Message],
    completion: Sequence[Message],
    tools: Sequence[Tool] = (),
    skipped: frozenset[int] = frozenset(),
) -> TokenizedConversation:
    """Return the tokens of a conversation whose ``completion`` begins with a turn.

    Calls are numbered as in an episode; a turn with calls or a thought in its text, as a run displays it, is
    tokenized as that text, behind a thought that the prompt opened. Messages after the last turn are left
    out. Where the template renders one call of a message, each of several is a turn, before its answer.
    ``skipped`` are indices of the completion's turns that carry no loss. Raises ConfigError where the chat
    template rejects a message.
    """
    read = [chat.reread(message, tools) for message in completion]
    messages = numbered([*prompt, *read])
    tokens = chat.opening(messages[: len(prompt)], tools)
    turns: list[TurnSpan] = []
    places = (place for place, message in enumerate(completion) if message.role == "assistant")
    numbers = {place: number for number, place in enumerate(places)}
    between: list[Message] = []
    for place, message in _played(messages[len(prompt) :], one_call=chat.one_call):
        given = completion[place]
        if message.role != "assistant":
            between.append(message)
            continue
        if turns:
            tokens += chat.continuation(between, tokens[-1])
            between = []
        start = len(tokens)
        if read[place] is given or message is not messages[len(prompt) + place]:
            tokens += chat.turn(message, tokens)
        else:
            tokens += chat.displayed_turn(given.content or "", message, tokens)
        turns.append(TurnSpan(start, len(tokens), numbers[place], trained=place not in skipped))
    return TokenizedConversation(tuple(tokens), tuple(turns))


def _played(messages: Sequence[Message], *, one_call: bool) -> Iterator[tuple[int, Message]]:
    """Yield the messages as an episode has them, each with the index of the one that it is of."""
    if not one_call:
        yield from enumerate(messages)
        return
    called = {call.id: place for place, each in enumerate(messages) for call in each.tool_calls or ()}
    others = (place for place, each in enumerate(messages) if not each.tool_calls)
    for message in calls_apart(messages):
        calls = message.tool_calls or ()
        yield called[calls[0].id] if calls else next(others), message
