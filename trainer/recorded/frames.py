"""Divide a conversation into what the agent saw of it: a record for each session and each set of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .bad_rows import RowError

if TYPE_CHECKING:
    from sandbox_contract.frames import ConversationFrame

    from .types import RecordedEpisode


def in_frames(episode: RecordedEpisode, frames: Sequence[ConversationFrame]) -> tuple[RecordedEpisode, ...]:
    """Return a record for each frame in which the assistant says something; the episode where there are none.

    A record whose frame begins within a session shows the turns before it, without loss. Raises RowError for
    frames that are not those of the messages.
    """
    if not frames:
        return (episode,)
    starts = [frame.message for frame in frames]
    if starts[0] or starts != sorted(starts) or starts[-1] > len(episode.messages):
        raise RowError("frames: they must begin at message 0, in order, and lie within the messages")
    if any(frame.first > frame.message for frame in frames):
        raise RowError("frames: the first message that is seen must not be behind the frame's own")
    ends = [*starts[1:], len(episode.messages)]
    records = [_record(episode, part, *each) for part, each in enumerate(zip(frames, ends, strict=True))]
    return tuple(each for each in records if each.repeated_turns < len(each.turns))


def _record(episode: RecordedEpisode, part: int, frame: ConversationFrame, end: int) -> RecordedEpisode:
    first, messages = frame.first, episode.messages
    spoken = [place for place, message in enumerate(messages) if message.role == "assistant"]
    numbers = slice(sum(place < first for place in spoken), sum(place < end for place in spoken))
    repeated = [place for place in spoken if first <= place < frame.message]
    rewards = episode.step_rewards
    return replace(
        episode,
        messages=messages[first:end],
        tools=frame.tools,
        earlier=messages[:first],
        part=part,
        repeated_turns=len(repeated),
        # Rewards that are not one a turn cannot be divided.
        step_rewards=rewards[numbers] if len(rewards) == len(spoken) else (),
        step_labels={name: labels[numbers] for name, labels in episode.step_labels.items()},
        skipped=frozenset(place - first for place in (*episode.skipped, *repeated) if first <= place < end),
    )
