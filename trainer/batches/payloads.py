"""Episodes of a group as bytes for the journal: numbers of tokens as arrays, all else as JSON.

JSON of a million tokens takes most of a second, in which nothing else of the process runs; arrays take a
twentieth of it. Log-probabilities are not compressed, since nearly all of their bits are noise: those that
are not zero are stored, in 32 bits where that loses nothing. Every number comes back as it was.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter
from pydantic_core import to_json

from trainer.types import Segment, TrajectoryGroup

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MAGIC = b"GRP3"
_SIZES = struct.Struct("<4sIIIIIB")
"""Magic; bytes of the JSON, of lengths and token ids, of loss masks, of the places of log-probabilities, of
their values; bytes of one value."""
_OLDER_MAGIC = b"GRP2"
_OLDER_SIZES = struct.Struct("<4sIIII")
"""Magic; bytes of the JSON, of lengths and token ids, of loss masks, of all log-probabilities in 64 bits."""
_GROUPS = TypeAdapter(TrajectoryGroup)


def group_to_json(group: TrajectoryGroup) -> bytes:
    """Return a line of JSON; every number comes back as it was. Threads get turns between two episodes."""
    spec = to_json(group.spec)
    episodes = b",".join(to_json(each, inf_nan_mode="constants") for each in group.trajectories)
    return b'{"spec":' + spec + b',"trajectories":[' + episodes + b"]}"


def group_from_json(body: bytes) -> TrajectoryGroup:
    """Read what ``group_to_json`` wrote."""
    return _GROUPS.validate_json(body)


def group_to_payload(group: TrajectoryGroup) -> bytes:
    """Return the group as bytes."""
    segments = list(_segments(group))
    hollow = replace(
        group,
        trajectories=tuple(
            replace(each, segments=tuple(_hollow(segment) for segment in each.segments))
            for each in group.trajectories
        ),
    )
    lengths = np.array([len(segment.token_ids) for segment in segments], dtype=np.int32)
    ids = [lengths, *(np.array(segment.token_ids, dtype=np.int32) for segment in segments)]
    masks = [np.packbits(np.array(segment.loss_mask, dtype=np.bool_)) for segment in segments]
    logprobs = [np.array(segment.logprobs, dtype=np.float64) for segment in segments]
    stored, values = _sparse(np.concatenate([np.zeros(0), *logprobs]))
    parts = [
        zlib.compress(group_to_json(hollow), 1),
        zlib.compress(b"".join(each.tobytes() for each in ids), 1),
        zlib.compress(b"".join(each.tobytes() for each in masks), 1),
        zlib.compress(np.packbits(stored).tobytes(), 1),
        values.tobytes(),
    ]
    return _SIZES.pack(_MAGIC, *map(len, parts), values.itemsize) + b"".join(parts)


def group_from_payload(body: bytes) -> TrajectoryGroup:
    """Read what ``group_to_payload`` wrote, now or in the releases whose journals can be resumed."""
    if body.startswith(_MAGIC):
        _, *sizes, itemsize = _SIZES.unpack_from(body)
        *packed, values = _cut(body, _SIZES.size, sizes)
        text, numbers, masks, stored = (zlib.decompress(part) for part in packed)
        kept = np.frombuffer(values, np.float32 if itemsize == 4 else np.float64)
    elif body.startswith(_OLDER_MAGIC):
        _, *sizes = _OLDER_SIZES.unpack_from(body)
        text, numbers, masks, values = (
            zlib.decompress(part) for part in _cut(body, _OLDER_SIZES.size, sizes)
        )
        stored, kept = b"", np.frombuffer(values, np.float64)
    else:
        return group_from_json(zlib.decompress(body))
    hollow = group_from_json(text)
    count = sum(1 for _ in _segments(hollow))
    lengths, ids = np.split(np.frombuffer(numbers, dtype=np.int32), [count])
    logprobs = kept
    if stored:
        logprobs = np.zeros(len(ids), dtype=np.float64)
        logprobs[np.unpackbits(np.frombuffer(stored, np.uint8), count=len(ids)).astype(np.bool_)] = kept
    full = _filled(lengths, ids, np.frombuffer(masks, np.uint8), logprobs.astype(np.float64))
    return replace(
        hollow,
        trajectories=tuple(
            replace(
                each,
                segments=tuple(_whole(segment, next(full)) for segment in each.segments),
            )
            for each in hollow.trajectories
        ),
    )


def _sparse(values: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.floating[Any]]]:
    """Return which values are not zero, and these, in 32 bits where all of them fit."""
    stored = values.view(np.int64) != 0  # also the zero with a sign
    kept = values[stored]
    with np.errstate(all="ignore"):
        short = kept.astype(np.float32)
    exact = np.array_equal(short.astype(np.float64).view(np.int64), kept.view(np.int64))
    return stored, short if exact else kept


def _cut(body: bytes, at: int, sizes: Sequence[int]) -> Iterator[bytes]:
    """Parts of these sizes, one behind the other."""
    for size in sizes:
        yield body[at : at + size]
        at += size


def _filled(
    lengths: NDArray[np.int32],
    ids: NDArray[np.int32],
    masks: NDArray[np.uint8],
    logprobs: NDArray[np.float64],
) -> Iterator[Segment]:
    """Segments without turns, in order."""
    start = packed = 0
    for length in lengths.tolist():
        end, packed_end = start + length, packed + (length + 7) // 8
        mask = np.unpackbits(masks[packed:packed_end], count=length).astype(np.bool_).tolist()
        yield Segment(tuple(ids[start:end].tolist()), tuple(mask), tuple(logprobs[start:end].tolist()), ())
        start, packed = end, packed_end


def _segments(group: TrajectoryGroup) -> Iterator[Segment]:
    return (segment for each in group.trajectories for segment in each.segments)


def _whole(hollow: Segment, tokens: Segment) -> Segment:
    """Return a hollow segment with the tokens of another."""
    return replace(hollow, token_ids=tokens.token_ids, loss_mask=tokens.loss_mask, logprobs=tokens.logprobs)


def _hollow(segment: Segment) -> Segment:
    return replace(segment, token_ids=(), loss_mask=(), logprobs=())
