"""Rows to score: tokens, and the places at which a reward model is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from sandbox_contract.messages import Message
from trainer.chat import ChatTokenizer
from trainer.chat.folder import load_tokenizer
from trainer.config import ChatConfig
from trainer.errors import ConfigError, RewardFailed

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.types import Line, Segment, Trajectory

    from .note import RewardModelNote

_ROLES = frozenset({"system", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One sequence; the model is read after its first ``ends[k]`` tokens, for each k."""

    token_ids: tuple[int, ...]
    ends: tuple[int, ...]
    """Rising numbers of tokens, from 1 to the length."""


class EpisodeReader(Protocol):
    """Makes rows of an episode."""

    def read_episode(self, trajectory: Trajectory) -> list[ScoredRow]:
        """Return rows that together have one end for each turn, in the order of the turns.

        Raises ConfigError where that is impossible for every episode, RewardFailed where it is for this one.
        """
        ...


class TokenReader:
    """Reads the sampled tokens themselves: the reward model has the policy's tokenizer."""

    def read_episode(self, trajectory: Trajectory) -> list[ScoredRow]:
        return [_row(segment) for segment in trajectory.segments if segment.turns]


class TextReader:
    """Reads an episode's messages, rendered by the reward model's own chat template.

    Messages of other roles than the template's are shown as the user's.
    """

    def __init__(self, chat: ChatTokenizer, stop: int | None = None) -> None:
        """``stop``: the token that ends a turn, if turns are read there; what a template renders behind it,
        such as a line break, is then left out.
        """
        self._chat = chat
        self._stop = stop

    @classmethod
    def of(cls, folder: Path, note: RewardModelNote) -> TextReader:
        """Return the reader of the model in a folder. Raises ConfigError where it cannot render text."""
        if not load_tokenizer(folder).chat_template:
            raise ConfigError(
                "the reward model's tokenizer has no chat template, so that it cannot read the text of an "
                'episode; use a reward model with the policy\'s tokenizer and reads="tokens"'
            )
        chat = ChatTokenizer(folder, ChatConfig(tools="none"))
        return cls(chat) if note.read_at == "turn" else cls(chat, chat.turn("")[-1])

    def read_episode(self, trajectory: Trajectory) -> list[ScoredRow]:
        messages = [_message(line) for line in trajectory.lines]
        return [self._row(messages, places) for places in _rising(_places(trajectory))]

    def _row(self, messages: Sequence[Message], places: Sequence[int]) -> ScoredRow:
        read = [self._until_read(messages[:place]) for place in places]
        whole = read[-1]
        if any(ids != whole[: len(ids)] for ids in read):
            raise ConfigError(
                "the reward model's chat template changes the beginning of a conversation that goes on, so "
                'that its steps cannot be scored as text; use reads="tokens"'
            )
        return ScoredRow(tuple(whole), tuple(len(ids) for ids in read))

    def _until_read(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation up to the place at which its last turn is read."""
        ids = self._rendered(messages)
        if self._stop not in ids:
            return ids
        end = len(ids) - ids[::-1].index(self._stop)
        # Where text follows, the stop token is an earlier message's, and the template leaves this turn open.
        text = cast("str", self._chat.tokenizer.decode(ids[end:], skip_special_tokens=True))
        return ids if text.strip() else ids[:end]

    def _rendered(self, messages: Sequence[Message]) -> list[int]:
        try:
            return self._chat.conversation_tokens(messages)
        except ConfigError as error:
            raise RewardFailed(f"the reward model cannot read the episode as text: {error}") from error


def _places(trajectory: Trajectory) -> list[int]:
    """Return the number of messages up to each turn, or to each of the assistant's if turns have no lines."""
    lines = trajectory.lines_of_turns()
    known = [line + 1 for line in lines if line is not None]
    if known and len(known) == len(lines):
        return known
    return [place for place, line in enumerate(trajectory.lines, 1) if line.role == "assistant"]


def _rising(places: Sequence[int]) -> list[list[int]]:
    """Return the places in rows in which they rise: the turns of sub-agents are between those of others."""
    rows: list[list[int]] = []
    for place in places:
        if rows and rows[-1][-1] < place:
            rows[-1].append(place)
        else:
            rows.append([place])
    return rows


def _row(segment: Segment) -> ScoredRow:
    return ScoredRow(segment.token_ids, tuple(turn.end for turn in segment.turns))


def _message(line: Line) -> Message:
    role = line.role if line.role in _ROLES else "user"
    return Message.model_validate({"role": role, "content": line.content})
