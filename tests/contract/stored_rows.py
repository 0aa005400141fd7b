"""The promises of a store about rows of an export; a subclass has fixtures ``url`` and ``store``."""

import json

import pytest

from sandbox_service.trajectories.documents import MOST_ROW_BYTES, PART_BYTES
from sandbox_service.trajectories.export import FileFormat, export
from sandbox_service.trajectories.lines import LineFormat
from sandbox_service.trajectories.reader import InstanceFilter
from sandbox_service.trajectories.records import EventKind
from sandbox_service.trajectories.rows import ExportFilter
from sandbox_service.trajectories.search import EpisodeQuery
from sandbox_service.trajectories.store import open_existing
from tests.harness.episodes import START, Episode, event, instance, record


async def row_of(store, instance_id, line_format=LineFormat.JSONL):
    """The row of an episode, fetched in its parts."""
    row, total = b"", 1
    while len(row) < total:
        part = await store.episode_line("acme", instance_id, line_format, len(row))
        row, total = row + part.data, part.total
    return row


class StoredRowsContract:
    @pytest.mark.parametrize("line_format", LineFormat)
    async def test_the_row_of_an_episode_is_its_line_in_an_export(self, store, url, tmp_path, line_format):
        record(store, Episode("s1.a"))
        record(store, Episode("s1.b", tenant="eve"))
        store.open_instance(instance("s1.c", created_at=START + 1, parent="s1.a", fork_sequence=1))
        rows = [await row_of(store, name, line_format) for name in ("s1.a", "s1.c")]
        with open_existing(url) as engine:
            wanted = ExportFilter(InstanceFilter(tenant="acme"))
            export(engine, tmp_path / "all.jsonl", FileFormat(line_format), wanted=wanted)
        assert b"".join(rows) == (tmp_path / "all.jsonl").read_bytes()
        assert await store.episode_line("acme", "s1.b", LineFormat.JSONL) is None

    async def test_a_long_row_comes_in_parts_and_one_that_is_too_large_not_at_all(self, store):
        for name, size in (("s1.a", PART_BYTES), ("s1.b", MOST_ROW_BYTES)):
            store.open_instance(instance(name))
            answer = b'{"observation":{"messages":[{"content":"%s"}]}}' % (b"x" * size)
            store.append(event(name, 0, EventKind.CREATE, response=answer))
        row = await row_of(store, "s1.a")
        assert len(json.loads(row)["messages"][0]["content"]) == PART_BYTES
        assert await store.episode_line("acme", "s1.b", LineFormat.JSONL) is None
        sizes = {each.size for each in (await store.search_episodes(EpisodeQuery("acme"))).episodes}
        assert min(sizes) < MOST_ROW_BYTES < max(sizes)
