"""``sandbox-service trajectories prune``: remove old episodes from the store."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sandbox_service.trajectories.pruning import MIN_AGE_S, PruneRules, plan_pruning, prune, reclaim

from .durations import duration_s
from .opened_store import StoreConfigOption, Url, opened_store
from .options import DryRunOption
from .terminal import WRONG, fail, notes, results

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.trajectories.pruning import Amount, PrunePlan

_DEFAULT_AGE_S = 86400.0
_MIB = 1024 * 1024


OlderThan: TypeAlias = Annotated[
    float | None,
    typer.Option(
        parser=duration_s,
        metavar="DURATION",
        help="Only episodes whose last event is older, such as 12h, 30d or 4w; at least 1h. "
        "Default with --keep-mib: 1d.",
    ),
]
KeepMib: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, help="Remove the oldest episodes until the others have at most so many MiB."),
]
Unended: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--unended",
        help="Also episodes that never ended, such as those of a node that was removed. "
        "Those of running supervisors stay.",
    ),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Vacuum: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--vacuum", help="Then give the space back to the file system; for a file, stop the service first."
    ),
]


def prune_episodes(
    config: StoreConfigOption = None,
    url: Url = None,
    older_than: OlderThan = None,
    keep_mib: KeepMib = None,
    environment: Annotated[str | None, typer.Option(help="Only this environment.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    unended: Unended = False,
    dry_run: DryRunOption = False,
    yes: Yes = False,
    vacuum: Vacuum = False,
) -> None:
    """Remove old episodes from the store. The service may go on beside it.

    A forked episode and the one that it was forked from are removed together, or not at all. An episode that
    has not ended stays. A later retry of a removed call with its idempotency key is executed again.

    Examples:

        sandbox-service trajectories prune --config service.toml --older-than 30d --dry-run

        sandbox-service trajectories prune --config service.toml --older-than 30d --environment code --yes

        sandbox-service trajectories prune --config service.toml --keep-mib 20480 --yes
    """
    rules = _rules(older_than, keep_mib, environment, tenant, unended=unended)
    with opened_store(url, config) as engine:
        with _bar("Reading episodes") as progress:
            plan = plan_pruning(engine, rules, progress)
        _show(plan)
        if dry_run:
            results().print(f"would remove: {_words(plan.removed)}")
            return
        if plan.removed.families and not yes and not _confirmed(plan.removed):
            raise fail("nothing was removed")
        with _bar("Removing episodes") as progress:
            begun = time.monotonic()
            removed = prune(engine, plan, progress)
        results().print(f"removed: {_words(removed)} in {time.monotonic() - begun:.1f} s")
        if vacuum:
            reclaim(engine)
            notes().print("the space was given back")


def _rules(
    older_than: float | None,
    keep_mib: int | None,
    environment: str | None,
    tenant: str | None,
    *,
    unended: bool,
) -> PruneRules:
    if older_than is None and keep_mib is None:
        raise fail("say what to remove: --older-than DURATION, --keep-mib MIB, or both", WRONG)
    age_s = _DEFAULT_AGE_S if older_than is None else older_than
    if age_s < MIN_AGE_S:
        raise fail("--older-than must be at least 1h: retries find earlier answers in the store", WRONG)
    keep_bytes = None if keep_mib is None else keep_mib * _MIB
    return PruneRules(time.time() - age_s, environment, tenant, keep_bytes, unended)


def _confirmed(amount: Amount) -> bool:
    if not sys.stdin.isatty():
        raise fail("pass --yes to remove episodes without a question", WRONG)
    return typer.confirm(f"Remove {_words(amount)}?", err=True)


def _show(plan: PrunePlan) -> None:
    if plan.unended:
        notes().print(
            f"{plan.unended} families stay, since an episode of theirs has not ended "
            "(--unended removes those that no running supervisor has)"
        )


def _words(amount: Amount) -> str:
    return (
        f"{amount.instances} episodes in {amount.families} families, {amount.events} events, "
        f"{amount.size / _MIB:.1f} MiB"
    )


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
