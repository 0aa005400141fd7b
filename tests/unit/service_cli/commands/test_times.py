"""Times as they are typed."""

from __future__ import annotations

import time

import pytest
import typer

from service_cli.commands.times import unix_time


@pytest.fixture
def in_paris(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_paris")
@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31",
        "2026-01-31 00:00",
        "2026-01-31T00:00:00",
        "2026-01-31T00:00+01:00",
        "2026-01-30T23:00Z",
        "2026-01-30 19:00:00-04:00",
    ],
)
def test_a_time_is_local_unless_it_has_an_offset(text):
    assert unix_time(text) == 1769814000


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "31.01.2026"])
def test_other_texts_are_refused_with_examples(text):
    with pytest.raises(typer.BadParameter, match="is not a time; write 2026-01-31 or"):
        unix_time(text)
