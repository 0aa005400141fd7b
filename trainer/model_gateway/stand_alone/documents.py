"""JSON documents of sessions: what the control routes return, and what each line of the export has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from pydantic_core import to_json

from trainer.finite_json import finite

if TYPE_CHECKING:
    from trainer.model_gateway.recording import CallRecord, Recording, SessionTotals
    from trainer.types import Turn

Document: TypeAlias = dict[str, object]


class SessionState(StrEnum):
    """Whether a session takes calls."""

    OPEN = "open"
    SEALED = "sealed"
    """Its owner deleted it."""
    EXPIRED = "expired"
    """No call came for the idle time."""
    STOPPED = "stopped"
    """The gateway stopped."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The facts about a session apart from its calls."""

    id: str
    prompts: str
    """``splice`` or ``render``."""
    seed: int
    opened_at: float
    """Seconds since 1970."""
    metadata: Mapping[str, object]


def summary(facts: SessionFacts, state: SessionState, totals: SessionTotals) -> Document:
    """Return a session in a few numbers.

    ``failure`` is a failure of the engine that the agent met and that no later call made good: such a session
    has no fair score.
    """
    return {
        "id": facts.id,
        "state": state,
        "prompts": facts.prompts,
        "seed": facts.seed,
        "opened_at": facts.opened_at,
        "metadata": finite(facts.metadata),
        "answered_calls": totals.answered,
        "failed_calls": totals.failed,
        "spliced_calls": totals.spliced,
        "sampled_tokens": totals.sampled,
        "reward": totals.reward,
        "limit": totals.limit,
        "failure": None if totals.failure is None else str(totals.failure),
        "drifted_calls": totals.drifted,
        "checked_calls": totals.checked,
    }


def sequences(recording: Recording) -> list[Document]:
    """Return the training sequences, one for each leaf of the forest of calls.

    The lists ``loss_mask`` and ``logprobs`` have an entry for each token. The mask is 1 where the model
    sampled the token and no earlier sequence trains it; elsewhere the log-probability is 0.
    """
    breaks = {call.number: call.because for call in recording.calls}
    return [
        {
            "token_ids": segment.token_ids,
            "loss_mask": [int(trained) for trained in segment.loss_mask],
            "logprobs": segment.logprobs,
            "break": breaks[numbers[0]],
            "turns": [_turn(turn, number) for turn, number in zip(segment.turns, numbers, strict=True)],
        }
        for segment, numbers in zip(recording.segments, recording.trained, strict=True)
    ]


def overview(shown: Document, recording: Recording) -> Document:
    """Return a summary with the calls and the messages, without tokens."""
    return shown | {
        "calls": [_call(call) for call in recording.calls],
        "messages": [{"role": line.role, "content": line.content} for line in recording.lines],
    }


def joined(document: Document, sequences: bytes) -> bytes:
    """Return a document as JSON on one line, with sequences that are JSON already."""
    return as_json(document)[:-1] + b',"sequences":' + sequences + b"}"


def as_json(document: object) -> bytes:
    """Return a document as JSON on one line."""
    return to_json(document)


def _turn(turn: Turn, number: int) -> Document:
    return {
        "call": number,
        "start": turn.start,
        "end": turn.end,
        "versions": [
            {"start": span.start, "end": span.end, "version": span.version} for span in turn.versions
        ],
        "reward": turn.reward,
        "terms": turn.terms,
        "cut": turn.cut,
        "sampling_s": turn.sampling_s,
    }


def _call(call: CallRecord) -> Document:
    return {
        "number": call.number,
        "dialect": call.dialect,
        "prompt": "spliced" if call.spliced else "rendered",
        "break": call.because,
        "prompt_tokens": call.prompt,
        "cached_tokens": call.cached,
        "sampled_tokens": call.sampled,
        "dropped_tool_calls": call.dropped,
        "versions": call.versions,
        "finish": call.finish,
        "seconds": call.seconds,
        "asked": finite(call.asked),
        "error": call.error or None,
    }
