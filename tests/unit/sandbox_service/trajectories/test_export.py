"""Datasets as files."""

import json

import pyarrow.parquet
import pytest

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.export import FileFormat, export
from sandbox_service.trajectories.parquet import write_parquet
from sandbox_service.trajectories.reader import InstanceFilter
from sandbox_service.trajectories.rows import ExportFilter, Rows
from sandbox_service.trajectories.schema import events, instances
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import START, Episode, instance, record, step, with_customer


@pytest.fixture
async def engine(tmp_path):
    """A store with five episodes, one of them a fork that goes on by one step."""
    url = f"sqlite:///{tmp_path}/trajectories.sqlite"
    store = open_store(StoreConfig(url=url))
    record(store, Episode("s1.a", score=1.0, at=START))
    record(store, Episode("s1.b", score=0.5, at=START + 10, tenant="other"))
    record(store, Episode("s1.c", score=None, at=START + 20, environment="code"))
    record(store, Episode("s1.d", score=0.0, at=START + 30))
    store.open_instance(instance("s1.e", created_at=START + 40, parent="s1.a", fork_sequence=1))
    store.append(step("s1.e", 2, 1, reward=2.0))
    await store.close()
    engine = connect(url)
    yield engine
    engine.dispose()


@pytest.fixture
def output(tmp_path):
    return tmp_path / "new folder" / "data"


def names(engine, output, wanted):
    export(engine, output, FileFormat.JSONL, wanted=wanted)
    return [json.loads(line)["instance_id"] for line in output.read_text().splitlines()]


def test_an_episode_is_a_line_with_its_conversation(engine, output):
    assert export(engine, output, FileFormat.JSONL) == 5
    first = json.loads(output.read_text().splitlines()[0])
    assert [one["role"] for one in first["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert first["step_rewards"] == [0.25, 0.5]
    assert first["step_ms"] == [1.5, 1.5]
    assert first["tools"][0]["function"]["name"] == "say"
    assert {key: first[key] for key in ("steps", "terminated", "success", "score", "reward", "ended_by")} == {
        "steps": 2,
        "terminated": True,
        "success": True,
        "score": 1.0,
        "reward": 1.0,
        "ended_by": "release",
    }


def test_a_forks_conversation_begins_with_its_parents_and_its_events_do_not(engine, output):
    export(engine, output, FileFormat.JSONL)
    fork = json.loads(output.read_text().splitlines()[-1])
    assert [one["content"] for one in fork["messages"]] == [
        "Say something.",
        "step 0",
        "word 0",
        "step 1",
        "word 1",
    ]
    export(engine, output, FileFormat.JSONL, Rows.EVENTS)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [one["sequence"] for one in lines if one["instance_id"] == "s1.e"] == [2]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(ExportFilter(InstanceFilter(environment="code")), ["s1.c"], id="environment"),
        pytest.param(ExportFilter(InstanceFilter(tenant="other")), ["s1.b"], id="tenant"),
        pytest.param(
            ExportFilter(InstanceFilter(since=START + 10, until=START + 30)), ["s1.b", "s1.c"], id="time"
        ),
        pytest.param(ExportFilter(success=True), ["s1.a"], id="success"),
        pytest.param(ExportFilter(success=False), ["s1.b", "s1.d"], id="failure"),
        pytest.param(ExportFilter(min_reward=0.75), ["s1.a", "s1.c", "s1.e"], id="reward"),
        pytest.param(ExportFilter(InstanceFilter(tenant="nobody")), [], id="nothing"),
    ],
)
def test_only_wanted_episodes_are_exported(engine, output, wanted, expected):
    assert names(engine, output, wanted) == expected


@pytest.mark.parametrize("rows", Rows)
def test_episodes_that_are_pruned_beside_an_export_are_not_in_it(engine, output, rows):
    def prune_after_the_first(done, _total):
        if done == 1:
            ids = ("s1.a", "s1.d", "s1.e")
            with engine.begin() as connection:
                connection.execute(events.delete().where(events.c.instance_id.in_(ids)))
                connection.execute(instances.delete().where(instances.c.instance_id.in_(ids)))

    export(engine, output, FileFormat.JSONL, rows, progress=prune_after_the_first)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert list(dict.fromkeys(line["instance_id"] for line in lines)) == ["s1.a", "s1.b", "s1.c"]


def test_parquet_has_typed_messages(engine, output):
    assert export(engine, output, FileFormat.PARQUET) == 5
    rows = pyarrow.parquet.read_table(output).to_pylist()
    assert rows[0]["messages"][1] == {
        "role": "assistant",
        "content": "step 0",
        "images": None,
        "reasoning_content": "think 0",
        "reasoning": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "say", "arguments": '{"text": "word 0"}'}}
        ],
        "tool_call_id": None,
        "name": None,
    }
    assert rows[0]["success"] is True
    assert rows[2]["success"] is None
    assert json.loads(rows[0]["tools"])[0]["type"] == "function"


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"role": "developer", "content": "x"}, "developer"),
        ({"role": "assistant", "content": [{"type": "audio"}]}, "assistant"),
        ({"role": 7}, "user"),
        ("bare", "user"),
    ],
    ids=["role", "part", "type", "text"],
)
def test_a_message_of_an_unknown_form_does_not_keep_the_others_from_parquet(tmp_path, message, role):
    row = {"instance_id": "s1.a", "messages": [message, {"role": "user", "content": "hello"}]}
    file = tmp_path / "rows.parquet"
    assert write_parquet(file, Rows.EPISODES, iter([row])) == 1
    unusual, usual = pyarrow.parquet.read_table(file).to_pylist()[0]["messages"]
    assert (unusual["role"], json.loads(unusual["content"])) == (role, message)
    assert (usual["role"], usual["content"]) == ("user", "hello")


def test_a_parquet_file_has_no_more_long_episodes_in_a_group_than_fit_into_memory(tmp_path):
    text = "x" * 6 * 1024 * 1024
    row = {"instance_id": "s1.a", "messages": [{"role": "user", "content": text}]}
    file = tmp_path / "rows.parquet"
    assert write_parquet(file, Rows.EPISODES, iter([row] * 7)) == 7
    written = pyarrow.parquet.read_metadata(file)
    assert [written.row_group(number).num_rows for number in range(written.num_row_groups)] == [3, 3, 1]
    short = {"instance_id": "s1.a", "messages": []}
    assert write_parquet(file, Rows.EPISODES, iter([short] * 300)) == 300
    assert pyarrow.parquet.read_metadata(file).num_row_groups == 2


def test_parquet_of_events_has_bodies_as_text(engine, output):
    written = export(engine, output, FileFormat.PARQUET, Rows.EVENTS)
    rows = pyarrow.parquet.read_table(output).to_pylist()
    assert written == len(rows) == 5 + 5 + 4 + 5 + 1
    assert json.loads(rows[1]["request"])["message"]["content"] == "step 0"
    assert json.loads(rows[1]["timing"]) == {"run_ms": 1.5}


def test_nothing_is_exported_as_an_empty_file(engine, output):
    wanted = ExportFilter(InstanceFilter(tenant="nobody"))
    for file_format in FileFormat:
        assert export(engine, output, file_format, wanted=wanted) == 0
        assert output.exists()


def test_progress_is_told_after_each_episode(engine, output):
    seen = []
    export(engine, output, FileFormat.JSONL, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_an_export_that_breaks_off_leaves_the_earlier_file_as_it_was(engine, output):
    def give_up(done, _total):
        if done == 3:
            raise KeyboardInterrupt

    output.parent.mkdir()
    output.write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        export(engine, output, FileFormat.JSONL, progress=give_up)
    assert [path.name for path in output.parent.iterdir()] == ["data"]
    assert output.read_text() == "earlier"


async def test_more_episodes_than_a_page_come_once_each_and_in_order(tmp_path, output):
    url = f"sqlite:///{tmp_path}/many.sqlite"
    store = open_store(StoreConfig(url=url))
    for number in range(600):
        store.open_instance(instance(f"s1.{number:03}", created_at=START + number // 7))
    await store.close()
    engine = connect(url)
    assert names(engine, output, None) == [f"s1.{number:03}" for number in range(600)]
    engine.dispose()


async def test_rows_have_the_agents_rewards_where_a_counterpart_takes_steps_too(tmp_path, output):
    url = f"sqlite:///{tmp_path}/trajectories.sqlite"
    store = open_store(StoreConfig(url=url))
    store.open_instance(instance())
    for each in with_customer():
        store.append(each)
    await store.close()
    export(connect(url), output, FileFormat.JSONL)
    row = json.loads(output.read_text())
    assert [one["content"] for one in row["messages"] if one["role"] == "assistant"] == [
        "Good day.",
        "Here it is.",
    ]
    assert (row["steps"], row["step_rewards"], row["reward"]) == (4, [0.25, 0.0], 0.5)
