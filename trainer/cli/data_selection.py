"""``sandbox-trainer data select``, ``pairs`` and ``decontaminate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from trainer.config.selection import DecontaminationConfig, LabelsConfig, PairsConfig, SelectionConfig
from trainer.errors import ConfigError

from .data_source import SOURCES, SOURCES_HELP, OutputOption, reading_progress, split_sources, written_to
from .terminal import FAILED, explained, results

if TYPE_CHECKING:
    from trainer.recorded.decontamination import EvaluationTask
    from trainer.recorded.pairs import Pairs
    from trainer.recorded.types import RecordedEpisode

_SHOWN = 10

SelectSources: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar=SOURCES,
        help=f"{SOURCES_HELP} Settings of the selection: by, quality.*, deduplicate.*, rule.*, weights.*.",
    ),
]
PairsSources: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar=SOURCES,
        help=f"{SOURCES_HELP} Settings of pairs: kind, by, margin, per_task; of --labels: by, least.",
    ),
]
DecontaminateSources: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar=SOURCES, help=f"{SOURCES_HELP} Settings of the overlap: words, share."),
]


def select(sources: SelectSources, output: OutputOption = None) -> None:
    """Select the episodes to learn from, and write them with their weights.

    In this order: quality filters (quality.*), duplicates (deduplicate.*), a rule on the value named by `by`
    (rule.*), weights (weights.*). docs/trainer/data.md lists all settings.

    Examples:

        sandbox-trainer data select episodes.jsonl rule.kind=threshold rule.least=1 -o solved.jsonl

        sandbox-trainer data select all.jsonl deduplicate.kind=near rule.kind=ranking -o best.jsonl

        sandbox-trainer data select all.jsonl weights.kind=softmax weights.temperature=0.5 -o new.jsonl
    """
    from trainer.recorded import selection
    from trainer.recorded.episode_rows import write_episodes
    from trainer.recorded.reading import read_episodes

    with explained():
        files, config = split_sources(sources, SelectionConfig)
        target = written_to(output, files.files)
        with reading_progress(files) as progress:
            episodes = read_episodes(files, progress)
        found = selection.select(episodes, config)
        write_episodes(target, found.episodes)
    console = results()
    console.print(
        f"{len(found.episodes):,} of {len(episodes):,} episodes: {target}", markup=False, soft_wrap=True
    )
    for reason, count in found.dropped.items():
        console.print(f"  dropped {count:,}: {reason}", markup=False)


def pairs(
    sources: PairsSources,
    output: OutputOption = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Label each episode as wanted or not (KTO), in place of pairs.")
    ] = False,
) -> None:
    """Make preferences of episodes of the same task, or labels with --labels.

    kind=best_worst takes the best against the worst, kind=all every two that differ by the margin. `by` names
    the value: score, return (sum of step rewards), process (their mean) or success.

    Examples:

        sandbox-trainer data pairs episodes.jsonl -o pairs.jsonl

        sandbox-trainer data pairs episodes.jsonl kind=all by=process margin=0.2 per_task=4 -o pairs.jsonl

        sandbox-trainer data pairs episodes.jsonl --labels least=0.5 -o labels.jsonl
    """
    from trainer.recorded import pairs as pairing
    from trainer.recorded.preference_rows import write_completions, write_preferences
    from trainer.recorded.reading import read_episodes

    with explained():
        if labels:
            files, label_config = split_sources(sources, LabelsConfig)
        else:
            files, pair_config = split_sources(sources, PairsConfig)
        target = written_to(output, files.files)
        with reading_progress(files) as progress:
            episodes = read_episodes(files, progress)
        if labels:
            made = pairing.make_labels(episodes, label_config)
            write_completions(target, made)
            good = sum(each.desirable for each in made)
            lines = [f"{len(made):,} labels, {good:,} of them wanted: {target}", *_without_labels(episodes)]
        else:
            found = pairing.make_pairs(episodes, pair_config)
            write_preferences(target, found.preferences)
            lines = [f"{len(found.preferences):,} pairs: {target}", *_without_pairs(found)]
    for line in lines:
        results().print(line, markup=False, soft_wrap=True)


def decontaminate(
    sources: DecontaminateSources,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="FILE|SPLIT",
            help="A file of evaluation tasks, or with --server a split of the environment; may be repeated.",
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Service that has the evaluation splits.")
    ] = None,
    environment: Annotated[
        str, typer.Option("--env", help="Environment of the splits, with --server.")
    ] = "code",
    output: OutputOption = None,
) -> None:
    """Find episodes that overlap with evaluation tasks, and write the others with --output.

    An episode overlaps by its task's id, by its split, or if more than `share` of an evaluation task's
    n-grams of `words` words occur in it. Without --output the exit code is 1 if any does.

    Examples:

        sandbox-trainer data decontaminate episodes.jsonl --against HumanEval.jsonl

        sandbox-trainer data decontaminate all.jsonl --server http://127.0.0.1:8000 --against humaneval
    """
    from trainer.recorded.decontamination import EvaluationTasks, find_contaminated
    from trainer.recorded.episode_rows import write_episodes
    from trainer.recorded.reading import read_episodes

    with explained():
        files, config = split_sources(sources, DecontaminationConfig)
        compared = map(Path, against or ()) if server is None else ()
        target = None if output is None else written_to(output, (*files.files, *compared))
        tasks = EvaluationTasks(_evaluation_tasks(against or (), server, environment), config)
        with reading_progress(files) as progress:
            episodes = read_episodes(files, progress)
        found = find_contaminated(episodes, tasks)
        if target is not None:
            bad = {id(each.record) for each in found}
            write_episodes(target, (each for each in episodes if id(each) not in bad))
    console = results()
    console.print(
        f"{len(found):,} of {len(episodes):,} episodes overlap with {len(tasks):,} evaluation tasks",
        markup=False,
    )
    for each in found[:_SHOWN]:
        line = f"  {each.record.origin}: {each.task}, {100 * each.share:.0f}% of its n-grams"
        console.print(line, markup=False, soft_wrap=True)
    if len(found) > _SHOWN:
        console.print(f"  ... and {len(found) - _SHOWN:,} more", markup=False)
    if target is not None:
        console.print(f"{len(episodes) - len(found):,} episodes: {target}", markup=False, soft_wrap=True)
    elif found:
        raise typer.Exit(FAILED)


def _evaluation_tasks(
    against: Sequence[str], server: str | None, environment: str
) -> tuple[EvaluationTask, ...]:
    from sandbox_client import SandboxClient
    from trainer.recorded.evaluation_tasks import tasks_of_file, tasks_of_service

    if not against:
        raise ConfigError("name a file of evaluation tasks with --against FILE, or a split with --server URL")
    if server is None:
        return tuple(task for name in against for task in tasks_of_file(Path(name)))
    with SandboxClient(server, os.environ.get("SANDBOX_API_KEY")) as client:
        return tuple(tasks_of_service(client, environment, against))


def _without_labels(episodes: Sequence[RecordedEpisode]) -> list[str]:
    """Return a line that counts the episodes without a label, if there are any: a failure ended them."""
    failed = sum(bool(each.failure_class) for each in episodes)
    return [_left_out(failed, "episodes that a failure ended")] if failed else []


def _without_pairs(found: Pairs) -> list[str]:
    """Return a line for each reason why tasks or pairs were left out."""
    counts = {
        "tasks with a single episode": found.alone,
        "tasks whose episodes are closer than the margin": found.equal,
        "pairs whose prompts differ": found.differing,
        "pairs that say the same": found.same,
        "episodes that a failure ended": found.failed,
    }
    return [_left_out(count, text) for text, count in counts.items() if count]


def _left_out(count: int, reason: str) -> str:
    return f"  left out {count:,}: {reason}"
