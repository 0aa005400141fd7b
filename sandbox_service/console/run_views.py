"""Pages about training runs: the list, a run with its curves, a step, a group, the tokens of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from .curves import Curve, curves_of
from .overview import BarPart
from .rollout_summary import rollout_summary
from .run_folder import written_at
from .tokens import MOST_TOKENS, ShownSegment, find_decoder, mean_of_finite, shown_segments
from .update_record import segment_records

if TYPE_CHECKING:
    from .rollout_summary import RolloutSummary
    from .run_folder import RunListing, TrainingRun
    from .run_records import RunEpisode, RunFailure, RunGroup, RunSpec, RunTurn
    from .update_record import RatioBounds


_LISTED_STEPS = 50
_LISTED = ("reward/mean", "success/mean")
"""Metrics in the list of runs."""
_COLUMNS = ("reward/mean", "success/mean", "episodes/turns", "staleness/mean", "groups/dropped", "time/take")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list."""

    name: str
    last_step: int | None
    written_at: float
    figures: Mapping[str, float]
    """Latest values of some metrics."""


@dataclass(frozen=True, slots=True)
class RunList:
    """The list of runs."""

    rows: tuple[RunRow, ...]
    unreadable: tuple[str, ...]
    """Folders that the service may not read, of which some may be runs."""
    readable: bool
    """Whether the folder of runs itself could be read."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step in the table of a run."""

    step: int
    figures: tuple[float | None, ...]
    failures: float
    """Attempts that failed, of all classes."""
    groups: int
    """Groups that it trained on."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run."""

    name: str
    written_at: float
    last_step: int | None
    learning_from: int
    """The step at which reinforcement learning begins."""
    curves: tuple[Curve, ...]
    rollouts: RolloutSummary | None
    """Its latest rollouts in figures; None without any."""
    columns: tuple[str, ...]
    steps: tuple[StepRow, ...]
    """The newest first."""
    stalls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedEpisode:
    """An episode in the list of a step's groups."""

    id: str
    success: bool | None
    failure: RunFailure | None
    reward: float
    stop: str
    turns: int
    sampled: int
    """Number of sampled tokens."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group that a step trained on."""

    spec: RunSpec
    mean_reward: float | None
    episodes: tuple[ListedEpisode, ...]


@dataclass(frozen=True, slots=True)
class StepPage:
    """The groups that a step trained on."""

    run: str
    step: int
    figures: Mapping[str, float]
    groups: tuple[ListedGroup, ...]
    missing: tuple[int, ...]
    """Groups whose episodes were not written."""
    previous: int | None
    following: int | None


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """An assistant turn beside its message."""

    turn: RunTurn
    mean_logprob: float | None


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A message, with the facts of its turn if the policy sampled it."""

    role: str
    text: str
    facts: TurnFacts | None


@dataclass(frozen=True, slots=True)
class EpisodeColumn:
    """An episode of a group."""

    episode: RunEpisode
    lines: tuple[ShownLine, ...]
    above_mean: float | None
    """Its reward minus the mean of its group; None without a score."""
    bar: tuple[BarPart, ...]
    """Its reward between the least and the greatest of the group and 0; empty without a score."""


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The episodes of a group side by side."""

    columns: tuple[EpisodeColumn, ...]
    divergence: int | None
    """The first message in which they differ; None if all are alike."""


@dataclass(frozen=True, slots=True)
class TokenPage:
    """The tokens of an episode."""

    run: str
    group: RunGroup
    episode: RunEpisode
    segments: tuple[ShownSegment, ...]
    decoded: bool
    """Whether the tokens' texts are known."""
    credited: bool
    """Whether the advantages of the episode are recorded."""
    bounds: RatioBounds | None
    """The bounds of the run's ratios; None where no ratios are recorded."""
    total: int
    following: int | None
    """The first token of the next page."""


def run_list(listing: RunListing) -> RunList:
    """Return the list of runs. Blocks."""
    rows = []
    for run in listing.runs:
        last_step, figures = run.read_latest(_LISTED)
        rows.append(RunRow(run.name, last_step, written_at(run), figures))
    return RunList(tuple(rows), listing.unreadable, listing.readable)


def run_page(run: TrainingRun) -> RunPage:
    """Return the page of a run. Blocks."""
    metrics, groups = run.read_metrics(), run.read_steps()
    newest = sorted({*metrics, *groups}, reverse=True)[:_LISTED_STEPS]
    rows = tuple(_step_row(step, metrics.get(step, {}), len(groups.get(step, ()))) for step in newest)
    return RunPage(
        name=run.name,
        written_at=written_at(run),
        last_step=newest[0] if newest else None,
        learning_from=run.first_learning_step(),
        curves=curves_of(metrics),
        rollouts=rollout_summary(metrics, groups),
        columns=_COLUMNS,
        steps=rows,
        stalls=tuple(run.stall_reports()),
    )


def step_page(run: TrainingRun, step: int) -> StepPage | None:
    """Return the page of a step; None if the run has no such step. Blocks."""
    metrics, groups = run.read_metrics(), run.read_steps()
    known = sorted({*metrics, *groups})
    if step not in known:
        return None
    indices = groups.get(step, ())
    # One after the other, since a group has thousands of tokens in each episode, and its row only counts.
    rows = {index: _listed_group(run, index) for index in indices}
    place = known.index(step)
    return StepPage(
        run=run.name,
        step=step,
        figures=metrics.get(step, {}),
        groups=tuple(row for row in rows.values() if row is not None),
        missing=tuple(index for index, row in rows.items() if row is None),
        previous=known[place - 1] if place else None,
        following=known[place + 1] if place + 1 < len(known) else None,
    )


def group_page(group: RunGroup) -> GroupPage:
    """Return the page of a group."""
    mean = group.mean_reward
    rewards = [each.reward for each in group.trajectories if each.scored]
    columns = tuple(
        EpisodeColumn(
            episode,
            _lines(episode),
            episode.reward - mean if mean is not None and episode.scored else None,
            _reward_bar(episode.reward, rewards) if episode.scored else (),
        )
        for episode in group.trajectories
    )
    return GroupPage(columns, _divergence(columns))


def token_page(run: TrainingRun, group: RunGroup, episode: RunEpisode, start: int) -> TokenPage:
    """Return the page of an episode's tokens from ``start`` on. Blocks."""
    decode = find_decoder(run)
    records = segment_records(episode, run.update_of(group.spec.index), run.settings())
    total = sum(len(segment.token_ids) for segment in episode.segments)
    return TokenPage(
        run=run.name,
        group=group,
        episode=episode,
        segments=shown_segments(episode.segments, records, start, decode),
        decoded=decode is not None,
        credited=any(record.advantages for record in records),
        bounds=next((record.bounds for record in records if record.ratios), None),
        total=total,
        following=start + MOST_TOKENS if start + MOST_TOKENS < total else None,
    )


def _step_row(step: int, values: Mapping[str, float], groups: int) -> StepRow:
    failures = sum(value for name, value in values.items() if name.startswith("failures/"))
    return StepRow(step, tuple(values.get(name) for name in _COLUMNS), failures, groups)


def _listed_group(run: TrainingRun, index: int) -> ListedGroup | None:
    group = run.group(index)
    if group is None:
        return None
    episodes = tuple(
        ListedEpisode(
            each.id, each.success, each.failure, each.reward, each.stop, len(each.turns), each.sampled
        )
        for each in group.trajectories
    )
    return ListedGroup(group.spec, group.mean_reward, episodes)


def _reward_bar(reward: float, rewards: Sequence[float]) -> tuple[BarPart, ...]:
    """Return a bar from 0 to the reward on the scale of the group."""
    least, most = min(0.0, *rewards), max(0.0, *rewards)
    scale = 100.0 / (most - least) if most > least else 0.0
    start, end = sorted((-least * scale, (reward - least) * scale))
    return (BarPart("idle" if reward >= 0 else "queue", start, end - start, 1),)


def _divergence(columns: Sequence[EpisodeColumn]) -> int | None:
    said = [[(line.role, line.text) for line in column.lines] for column in columns]
    for number, row in enumerate(zip_longest(*said)):
        if len(set(row)) > 1:
            return number
    return None


def _lines(episode: RunEpisode) -> tuple[ShownLine, ...]:
    facts = _facts(episode)
    return tuple(
        ShownLine(line.role, line.content, facts.get(place)) for place, line in enumerate(episode.lines)
    )


def _facts(episode: RunEpisode) -> dict[int, TurnFacts]:
    """Return the facts of turns by the places of their lines.

    Turns of earlier records, which lack the places, belong to the assistant's lines in order, if they are as
    many.
    """
    sampled = [(segment, turn) for segment in episode.agent_segments for turn in segment.turns]
    places = [turn.line for _, turn in sampled]
    if all(place is None for place in places):
        spoken = [place for place, line in enumerate(episode.lines) if line.role == "assistant"]
        places = [*spoken] if len(spoken) == len(sampled) else places
    return {
        place: TurnFacts(turn, mean_of_finite(segment.logprobs[turn.start : turn.end]))
        for place, (segment, turn) in zip(places, sampled, strict=True)
        if place is not None
    }
