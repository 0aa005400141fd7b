"""The search form: from the query of a URL to a query of the store, and to the URLs of related pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from sandbox_contract.problems import FailureClass
from sandbox_service.trajectories.lines import LineFormat
from sandbox_service.trajectories.search import ANY_FAILURE, NO_FAILURE, EpisodeQuery, Place

SEARCH, TASKS, EXPORT = "/console/episodes", "/console/tasks", "/console/export"
"""Addresses that understand the form's fields."""
FIELDS = (
    "environment",
    "task",
    "exact",
    "family",
    "least_reward",
    "most_reward",
    "failure",
    "least_steps",
    "most_steps",
    "text",
    "since",
    "until",
)
"""Names of the form's fields."""
FAILURES = (ANY_FAILURE, NO_FAILURE, *(each.value for each in FailureClass))
"""Values of the field ``failure``."""
_MOST_CHARACTERS = 512
_DIGITS = 10
"""Longer numbers are no number of steps."""


class FormError(ValueError):
    """A field has a value that it cannot have; the text names both."""


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The values of the form's fields, as the visitor typed them."""

    values: Mapping[str, str]

    def url(self, path: str = SEARCH, **changes: str) -> str:
        """Return the URL of a page with the form's values, some of them changed, or with further ones."""
        filled = {name: value for name, value in {**self.values, **changes}.items() if value}
        return f"{path}?{urlencode(filled)}" if filled else path

    def next_url(self, end: Place | None, path: str = SEARCH, **further: str) -> str | None:
        """Return the URL of the page after the place; None after the last page."""
        return None if end is None else self.url(path, before=encode_place(end), **further)


def read_form(parameters: Mapping[str, str], fields: Iterable[str] = FIELDS) -> SearchForm:
    """Return the form's values among the parameters of a URL; fields that the page lacks are empty."""
    given = {name: parameters.get(name, "").strip()[:_MOST_CHARACTERS] for name in fields}
    return SearchForm({name: given.get(name, "") for name in FIELDS})


def read_line_format(parameters: Mapping[str, str]) -> LineFormat:
    """Return the format of a download. Raises FormError."""
    name = parameters.get("format", LineFormat.JSONL.value)
    try:
        return LineFormat(name)
    except ValueError:
        raise FormError(f"format: {name[:40]!r} is not {' or '.join(LineFormat)}") from None


def query_of(form: SearchForm, tenant: str, before: str | None) -> EpisodeQuery:
    """Return the query that a form stands for. Raises FormError."""
    values = form.values
    if values["failure"] and values["failure"] not in FAILURES:
        raise FormError(f"failure: {values['failure']!r} is no failure class")
    query = EpisodeQuery(
        tenant,
        environment=values["environment"] or None,
        task=values["task"] or None,
        exact_task=bool(values["exact"]),
        family=values["family"] or None,
        least_reward=_number("least_reward", values),
        most_reward=_number("most_reward", values),
        failure=values["failure"] or None,
        least_steps=_count("least_steps", values),
        most_steps=_count("most_steps", values),
        text=values["text"] or None,
        since=_time("since", values),
        until=_time("until", values),
    )
    return query if not before else replace(query, before=decode_place(before))


def encode_place(place: Place) -> str:
    """Return a place as text for a URL."""
    return f"{place.created_at!r} {place.recorded_id}"


def decode_place(text: str) -> Place:
    """Return the place that ``encode_place`` wrote. Raises FormError."""
    time, _, name = text.partition(" ")
    try:
        created_at = float(time)
    except ValueError:
        created_at = math.nan
    if not math.isfinite(created_at) or not name:
        raise FormError("before: not the place of a page; follow the links between pages")
    return Place(created_at, name[:_MOST_CHARACTERS])


def _number(name: str, values: Mapping[str, str]) -> float | None:
    if not values[name]:
        return None
    try:
        value = float(values[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FormError(f"{name}: {values[name]!r} is not a number")
    return value


def _count(name: str, values: Mapping[str, str]) -> int | None:
    if not values[name]:
        return None
    if not (values[name].isascii() and values[name].isdecimal() and len(values[name]) < _DIGITS):
        raise FormError(f"{name}: {values[name]!r} is not a number of steps")
    return int(values[name])


def _time(name: str, values: Mapping[str, str]) -> float | None:
    if not values[name]:
        return None
    try:
        at = datetime.fromisoformat(values[name])
    except ValueError:
        raise FormError(f"{name}: {values[name]!r} is not a time such as 2026-01-31T12:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
