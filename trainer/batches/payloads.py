"""Episodes of a group as bytes for the journal: numbers of tokens as arrays, all else as JSON.

JSON of a million tokens takes most of a second, in which nothing else of the process runs; arrays take a
twentieth of it. Every number comes back as it was.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter
from pydantic_core import to_json

from trainer.types import Segment, TrajectoryGroup

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MAGIC = b"GRP2"
_SIZES = struct.Struct("<4sIIII")
"""Magic; bytes of the JSON, of lengths and token ids, of loss masks, of log-probabilities."""
_GROUPS = TypeAdapter(TrajectoryGroup)


def group_to_json(group: TrajectoryGroup) -> bytes:
    """A line of JSON; every number comes back as it was. Threads get turns between two episodes."""
    spec = to_json(group.spec)
    episodes = b",".join(to_json(each, inf_nan_mode="constants") for each in group.trajectories)
    return b'{"spec":' + spec + b',"trajectories":[' + episodes + b"]}"


def group_from_json(body: bytes) -> TrajectoryGroup:
    """What ``group_to_json`` wrote."""
    return _GROUPS.validate_json(body)


def group_to_payload(group: TrajectoryGroup) -> bytes:
    """The group as bytes."""
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
    parts = [
        zlib.compress(group_to_json(hollow), 1),
        zlib.compress(b"".join(each.tobytes() for each in ids), 1),
        zlib.compress(b"".join(each.tobytes() for each in masks), 1),
        zlib.compress(b"".join(each.tobytes() for each in logprobs), 1),
    ]
    return _SIZES.pack(_MAGIC, *map(len, parts)) + b"".join(parts)


def group_from_payload(body: bytes) -> TrajectoryGroup:
    """What ``group_to_payload`` wrote, or compressed JSON, which journals of older runs hold."""
    if not body.startswith(_MAGIC):
        return group_from_json(zlib.decompress(body))
    _, *sizes = _SIZES.unpack_from(body)
    parts, at = [], _SIZES.size
    for size in sizes:
        parts.append(zlib.decompress(body[at : at + size]))
        at += size
    hollow = group_from_json(parts[0])
    count = sum(1 for _ in _segments(hollow))
    numbers = np.frombuffer(parts[1], dtype=np.int32)
    lengths, ids = numbers[:count], numbers[count:]
    full = _filled(lengths, ids, np.frombuffer(parts[2], np.uint8), np.frombuffer(parts[3], np.float64))
    return replace(
        hollow,
        trajectories=tuple(
            replace(
                each,
                segments=tuple(replace(next(full), turns=segment.turns) for segment in each.segments),
            )
            for each in hollow.trajectories
        ),
    )


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


def _hollow(segment: Segment) -> Segment:
    return Segment((), (), (), segment.turns)
