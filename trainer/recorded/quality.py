"""Quality filters: reasons to drop an episode that do not depend on its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fields import is_empty

if TYPE_CHECKING:
    from trainer.config.selection import QualityConfig

    from .types import RecordedEpisode


def characters(episode: RecordedEpisode) -> int:
    """Return the number of characters of all messages, tool calls' arguments included."""
    total = 0
    for message in episode.messages:
        total += len(message.content or "")
        total += sum(len(str(call.function.arguments)) for call in message.tool_calls or ())
    return total


def reason_to_drop(episode: RecordedEpisode, quality: QualityConfig) -> str | None:
    """Return why an episode is dropped, in words that are the same for all such episodes, or None."""
    turns = len(episode.turns)
    if episode.failure_class and episode.failure_class not in quality.failures:
        return f"failure: {episode.failure_class}"
    if turns < quality.min_turns:
        return "too few turns"
    if quality.max_turns is not None and turns > quality.max_turns:
        return "too many turns"
    if quality.max_chars is not None and characters(episode) > quality.max_chars:
        return "too long"
    if sum(map(is_empty, episode.turns)) > quality.max_empty_turns:
        return "empty turns"
    if quality.max_format_errors is not None and episode.format_errors > quality.max_format_errors:
        return "format errors"
    if episode.truncated and not quality.truncated:
        return "truncated"
    return None
