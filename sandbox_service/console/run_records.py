"""Records of training runs, as the files of a run's folder have them.

The trainer writes the files and documents them; the service reads them without importing the trainer.
Fields that a reader does not know are ignored, and lines that it cannot read are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WeightSpan:
    """Tokens ``[start, end)`` of a segment were sampled by this weight version."""

    start: int
    end: int
    version: int


@dataclass(frozen=True, slots=True)
class RunTurn:
    """The tokens ``[start, end)`` of a segment that one assistant turn sampled."""

    start: int
    end: int
    versions: tuple[WeightSpan, ...] = ()
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    cut: bool = False
    sampling_s: float = 0.0
    sandbox_s: float = 0.0
    line: int | None = None
    """Index of its message among the episode's lines; None where it has none, as in earlier records."""


@dataclass(frozen=True, slots=True)
class RunSegment:
    """A stretch of an episode in which no earlier token changed."""

    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    turns: tuple[RunTurn, ...] = ()
    opponent: bool = False
    """Whether the agent's opponent sampled it."""
    partner: bool = False
    """Whether a trained counterpart of the agent sampled it, which has its reward."""

    @property
    def counterpart(self) -> str:
        """The counterpart that sampled it; empty for the agent."""
        if self.opponent:
            return "opponent"
        return "partner" if self.partner else ""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A message, as text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A failure that left an episode without a verdict."""

    failure_class: str
    code: str
    detail: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class RunTask:
    """The task of a group."""

    environment: str
    task_id: str
    split: str = ""
    difficulty: str = ""


@dataclass(frozen=True, slots=True)
class RunEpisode:
    """An episode of a training run."""

    id: str
    segments: tuple[RunSegment, ...] = ()
    stop: str = ""
    score: float | None = None
    success: bool | None = None
    failure: RunFailure | None = None
    attempts: int = 1
    drifted: int = 0
    instance_id: str = ""
    """The last instance in the service."""
    lines: tuple[RunLine, ...] = ()
    weight: float = 1.0
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """Whether it has a score, so that its reward is one."""
        return self.score is not None and self.failure is None

    @property
    def agent_segments(self) -> tuple[RunSegment, ...]:
        """The segments without those of a counterpart."""
        return tuple(segment for segment in self.segments if not segment.counterpart)

    @property
    def turns(self) -> tuple[RunTurn, ...]:
        """The agent's turns, over all segments."""
        return tuple(turn for segment in self.agent_segments for turn in segment.turns)

    @property
    def sampled(self) -> int:
        """Number of tokens that the agent sampled."""
        return sum(sum(segment.loss_mask) for segment in self.agent_segments)

    @property
    def versions(self) -> tuple[int, ...]:
        """Weight versions that sampled the agent's tokens."""
        return tuple(sorted({span.version for turn in self.turns for span in turn.versions}))


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The order to play a group."""

    index: int
    task: RunTask


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The episodes of one task that share a baseline."""

    spec: RunSpec
    trajectories: tuple[RunEpisode, ...]

    @property
    def mean_reward(self) -> float | None:
        """Mean reward of the episodes with a score."""
        rewards = [each.reward for each in self.trajectories if each.scored]
        return sum(rewards) / len(rewards) if rewards else None


@dataclass(frozen=True, slots=True)
class RunAdvantages:
    """The record of a group's samples at a step."""

    group: int
    step: int
    advantages: dict[str, tuple[tuple[float, int], ...]]
    """By episode, with ``#N`` behind it for its N-th segment: values, and for how many tokens each holds."""
    log_ratios: dict[str, str] = field(default_factory=dict)
    """Likewise, base64 of little-endian 16-bit floats, one for each trained token: the learner's
    log-probability minus the engine's.
    """
    entropies: dict[str, str] = field(default_factory=dict)
    """Likewise, the entropy of the learner's distribution."""
