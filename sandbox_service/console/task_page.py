"""The task browser: a table of tasks in the order that the address names, and the links around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .search_form import SEARCH, TASKS, FormError, SearchForm, read_form
from .task_table import SORT_KEYS, sorted_rows, task_rows

if TYPE_CHECKING:
    from sandbox_service.trajectories.search import EpisodeSummary, Place

    from .task_table import TaskRow


MOST_ROWS = 200
"""Tasks on a page."""
_FIELDS = ("environment", "task", "since", "until")
_TITLES = {
    "task": "task",
    "episodes": "episodes",
    "graded": "graded",
    "pass_rate": "pass rate",
    "reward": "mean reward",
    "spread": "spread",
    "failures": "infrastructure failures",
    "marks": "marks",
}
_RISING, _FALLING = "ascending", "descending"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """The order of the table."""

    key: str = "task"
    descending: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of an address with this order."""
        return {"sort": self.key, "order": _FALLING if self.descending else _RISING}


@dataclass(frozen=True, slots=True)
class SortLink:
    """The head of a column."""

    title: str
    url: str
    """The table sorted by the column; the other way round where it is already."""
    state: str
    """The value of ``aria-sort``."""


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A row of the table and its links."""

    row: TaskRow
    episodes_url: str


@dataclass(frozen=True, slots=True)
class TaskPage:
    """All that the page shows below its form."""

    columns: tuple[SortLink, ...]
    tasks: tuple[ListedTask, ...]
    unlisted: int
    """Tasks beyond the most that a page lists."""
    looked_at: int
    """Episodes that were looked at."""
    oldest: float | None
    """The time at which the oldest of them began."""
    next_url: str | None
    """The page of older episodes, if there are others."""


def read_task_form(parameters: Mapping[str, str]) -> SearchForm:
    """Return the values of the page's form."""
    return read_form(parameters, _FIELDS)


def read_order(parameters: Mapping[str, str]) -> TaskOrder:
    """Return the order that a URL names. Raises FormError."""
    key, order = parameters.get("sort") or "task", parameters.get("order") or _RISING
    _check("sort", key, SORT_KEYS)
    _check("order", order, (_RISING, _FALLING))
    return TaskOrder(key, order == _FALLING)


def check_environment(form: SearchForm, served: Collection[str]) -> None:
    """Raise FormError if the form names an environment that is not among those."""
    if form.values["environment"]:
        _check("environment", form.values["environment"], served)


def task_page(
    episodes: Sequence[EpisodeSummary], end: Place | None, form: SearchForm, order: TaskOrder, before: str
) -> TaskPage:
    """Return the page of episodes that were looked at from ``before`` down to ``end``."""
    rows = sorted_rows(task_rows(episodes), order.key, descending=order.descending)
    return TaskPage(
        columns=tuple(_column(key, form, order, before) for key in SORT_KEYS),
        tasks=tuple(ListedTask(row, _episodes_url(row, form)) for row in rows[:MOST_ROWS]),
        unlisted=max(0, len(rows) - MOST_ROWS),
        looked_at=len(episodes),
        oldest=min((each.created_at for each in episodes), default=None),
        next_url=form.next_url(end, TASKS, **order.parameters),
    )


def _column(key: str, form: SearchForm, order: TaskOrder, before: str) -> SortLink:
    chosen = key == order.key
    # Numbers are mostly looked at from the greatest on, and texts from the first letter.
    descending = not order.descending if chosen else key != "task"
    wanted = TaskOrder(key, descending)
    state = order.parameters["order"] if chosen else "none"
    return SortLink(_TITLES[key], form.url(TASKS, before=before, **wanted.parameters), state)


def _episodes_url(row: TaskRow, form: SearchForm) -> str:
    return form.url(SEARCH, environment=row.environment, task=row.task_id, exact="1")


def _check(name: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        raise FormError(f"{name}: {given[:100]!r} is not one of: {', '.join(sorted(known))}")
