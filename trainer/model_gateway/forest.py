"""Arrange the calls of a session in a forest by exact token prefix, and cut it into training sequences.

A call is a prompt and the tokens that the model sampled for it. It extends an earlier call if its prompt
begins with that call's prompt and sampled tokens, exactly; of several such calls, the longest. Every path
from a root to a leaf is one sequence. A call on several paths is trained in the first of them only, so that
each sampled token counts once.

Calls may arrive in any order: an agent's calls run in parallel, and a long one ends after those that it
preceded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from trainer.engines.generation import Finish, Generation
from trainer.types import Segment, Turn, VersionSpan

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Break(StrEnum):
    """Why a call begins a path of its own or leaves one."""

    FIRST = "first"
    """It is the session's first call."""
    EXTENDS = "extends"
    """It goes on where its parent ended: there is no break."""
    BRANCH = "branch"
    """Another call extends the same parent: parallel calls, a resample, or a retry that was not marked."""
    TOOLS = "tools"
    """Other tools or another system prompt: a sub-agent, or a tool list that changed."""
    SHORTENED = "shortened"
    """The same system prompt and tools with fewer messages: the agent compacted its history."""
    REWRITTEN = "rewritten"
    """An earlier message differs."""
    RENDERED = "rendered"
    """The messages extend an earlier call, and the chat template renders that history to other tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One answered request to the model."""

    number: int
    """Position in the order in which the session's calls began."""
    prompt_ids: tuple[int, ...]
    generation: Generation
    because: Break
    """What the messages say; ``Forest.breaks`` corrects it by tokens and siblings."""
    reward: float = 0.0
    """The step rewards that were matched to this call."""
    terms: dict[str, float] = field(default_factory=dict)
    """Named parts of them, as in ``Turn``."""
    sampling_s: float = 0.0
    sandbox_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Node:
    call: Call
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.call.prompt_ids) + len(self.call.generation.token_ids)


class Forest:
    """The calls of one session."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._by_number: dict[int, _Node] = {}
        self._by_end: defaultdict[int, dict[bytes, _Node]] = defaultdict(dict)
        """Nodes by the number of their tokens, prompt and sampled, and the digest of these."""

    def add(self, call: Call) -> None:
        """Record a call. Its generation must have a token at least."""
        node = _Node(call)
        ids = _array(call.prompt_ids + call.generation.token_ids)
        node.parent = self._longest(ids[: len(call.prompt_ids)])
        if node.parent is not None:
            node.parent.children.append(node)
        self._adopt(node, ids)
        self._nodes.append(node)
        self._by_number[call.number] = node
        # Two calls may have sampled the same tokens for the same prompt: what follows extends the first.
        self._by_end[node.end].setdefault(_digest(ids), node)

    def add_reward(self, number: int, reward: float, terms: Mapping[str, float], sandbox_s: float) -> None:
        """Add a step reward to that of a call. Raises KeyError for a call that was not added."""
        node = self._by_number[number]
        call = node.call
        summed = {name: call.terms.get(name, 0.0) + value for name, value in terms.items()}
        node.call = replace(
            call,
            reward=call.reward + reward,
            terms={**call.terms, **summed},
            sandbox_s=call.sandbox_s + sandbox_s,
        )

    def __len__(self) -> int:
        return len(self._nodes)

    def breaks(self) -> dict[int, Break]:
        """Return for each call, by its number, why it begins or leaves a path."""
        found: dict[int, Break] = {}
        for node in self._ordered():
            if node.parent is None:
                found[node.call.number] = node.call.because
            elif min(node.parent.children, key=_number) is node:
                found[node.call.number] = Break.EXTENDS
            else:
                found[node.call.number] = Break.BRANCH
        return found

    def segments(self) -> tuple[Segment, ...]:
        """Return one training sequence for each leaf, in the order of the leaves' calls."""
        trained: set[int] = set()
        leaves = [node for node in self._ordered() if not node.children]
        return tuple(_segment(_path(leaf), trained) for leaf in leaves)

    def _longest(self, prompt: NDArray[np.int32]) -> _Node | None:
        """Return the call of which prompt and sampled tokens are the longest prefix of a prompt."""
        found: _Node | None = None
        digest, start = blake2b(digest_size=16), 0
        for end in sorted(end for end in self._by_end if end <= len(prompt)):
            digest.update(prompt[start:end].data)
            start = end
            found = self._by_end[end].get(digest.copy().digest(), found)
        return found

    def _adopt(self, node: _Node, ids: NDArray[np.int32]) -> None:
        """Move calls below a node that extend it and were answered before it."""
        for other in self._nodes:
            if len(other.call.prompt_ids) < node.end or (other.parent and other.parent.end >= node.end):
                continue
            if np.array_equal(_array(other.call.prompt_ids[: node.end]), ids):
                if other.parent is not None:
                    other.parent.children.remove(other)
                other.parent = node
                node.children.append(other)

    def _ordered(self) -> list[_Node]:
        return sorted(self._nodes, key=_number)


def _number(node: _Node) -> int:
    return node.call.number


def _array(token_ids: Sequence[int]) -> NDArray[np.int32]:
    return np.asarray(token_ids, dtype=np.int32)


def _digest(ids: NDArray[np.int32]) -> bytes:
    return blake2b(ids.data, digest_size=16).digest()


def _path(leaf: _Node) -> list[_Node]:
    """Return the nodes from the root to a leaf."""
    path = [leaf]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    return path[::-1]


def _segment(path: Sequence[_Node], trained: set[int]) -> Segment:
    """Return the sequence of a path, and note its calls as trained."""
    last = path[-1].call
    token_ids = last.prompt_ids + last.generation.token_ids
    loss_mask = [False] * len(token_ids)
    logprobs = [0.0] * len(token_ids)
    turns = []
    for node in path:
        call = node.call
        start = len(call.prompt_ids)
        if call.number in trained:
            continue
        trained.add(call.number)
        loss_mask[start : node.end] = [True] * (node.end - start)
        logprobs[start : node.end] = call.generation.logprobs
        turns.append(_turn(call, start, node.end))
    return Segment(token_ids, tuple(loss_mask), tuple(logprobs), tuple(turns))


def _turn(call: Call, start: int, end: int) -> Turn:
    return Turn(
        start,
        end,
        tuple(
            VersionSpan(start + span.start, start + span.end, span.version)
            for span in call.generation.versions
        ),
        reward=call.reward,
        terms=call.terms,
        cut=call.generation.finish in (Finish.LENGTH, Finish.TIMEOUT),
        sampling_s=call.sampling_s,
        sandbox_s=call.sandbox_s,
    )
