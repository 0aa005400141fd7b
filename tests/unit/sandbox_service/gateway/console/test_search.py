"""The episode search: the histogram of rewards, and the download of what was found."""

import json
import re

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ApiKeyConfig, Rights, ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op
from tests.harness.gateway import digest, make_client

KEYS = ServerConfig(
    api_keys={
        digest("ada-key"): "ada",
        digest("eve-key"): "eve",
        digest("reader"): ApiKeyConfig(tenant="ada", rights=Rights.READ),
    }
)
ADA, EVE, READER = ({"X-API-Key": key} for key in ("ada-key", "eve-key", "reader"))
SEARCH, EXPORT = "/console/episodes", "/console/export"


@pytest.fixture
async def keyed(backend):
    async with make_client(backend, KEYS) as client:
        yield client


async def play(client, backend, name, reward=None, headers=ADA):
    """An episode with a reward."""
    body = {"environment": "echo", "task_id": "echo-10", "instance_id": name}
    assert (await client.post("/v1/create_instance", json=body, headers=headers)).is_success
    backend.episodes[name].outcome = {} if reward is None else {"reward": reward, "success": reward >= 1}


def lines(reply):
    return [json.loads(line)["instance_id"] for line in reply.text.splitlines()]


async def test_the_histogram_counts_what_was_looked_at_also_beyond_the_chosen_rewards(keyed, backend):
    for number, reward in enumerate([0.0, 1.0, 1.0, None]):
        await play(keyed, backend, f"ada-{number}", reward)
    await play(keyed, backend, "eve-1", 1.0, EVE)
    text = (await keyed.get(f"{SEARCH}?least_reward=1&most_reward=1", headers=ADA)).text
    counts = re.findall(r"<b>(\d+)</b> <span class=\"hidden\">with reward</span> <span>(\S+)</span>", text)
    assert counts == [("1", "0"), ("2", "1")]
    assert "1 without one" in text
    assert text.count('aria-current="true"') == 1
    assert "Looked at 4 episodes" in text
    assert "2 of them match" in text
    assert "/console/episodes?least_reward=0&amp;most_reward=0" in text


async def test_the_list_ends_after_a_page_and_the_download_has_all_that_was_found(keyed, backend):
    for number in range(53):
        await play(keyed, backend, f"ada-{number:02}", 1.0)
    text = (await keyed.get(SEARCH, headers=ADA)).text
    assert text.count('type="checkbox" name="id"') == 50
    assert "of which the newest 50 are listed" in text
    assert "Download 53 as JSONL" in text
    assert "before=3.0+ada-03" in text


async def test_the_list_and_the_download_say_whose_episodes_are_missing(keyed, backend):
    await play(keyed, backend, "a", 1.0)
    assert "are missing" not in (await keyed.get(SEARCH, headers=ADA)).text
    backend.away = ("s2", "s3")
    text = (await keyed.get(SEARCH, headers=ADA)).text
    assert "Episodes of s2, s3 are missing" in text
    assert "Search again from the first page once they answer." in text
    reply = await keyed.get(EXPORT, headers=ADA)
    assert 'filename="episodes-1-incomplete.jsonl"' in reply.headers["content-disposition"]


async def test_an_away_supervisor_of_a_fleet_with_one_database_leaves_nothing_out(keyed, backend):
    await play(keyed, backend, "a", 1.0)
    backend.away, backend.one_database = ("s2",), True
    assert "are missing" not in (await keyed.get(SEARCH, headers=ADA)).text


async def test_a_download_has_the_visitors_wanted_episodes_only(keyed, backend):
    for name, reward, headers in (("a", 1.0, ADA), ("b", 0.0, ADA), ("c", 1.0, EVE)):
        await play(keyed, backend, name, reward, headers)
    reply = await keyed.get(f"{EXPORT}?least_reward=0.5", headers=READER)
    assert (reply.status_code, lines(reply)) == (200, ["a"])
    assert reply.headers["content-disposition"] == 'attachment; filename="episodes-1.jsonl"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert {call.tenant for call in backend.calls if call.op is Op.TRAJECTORY} == {"ada"}


async def test_a_download_comes_as_atif_where_it_is_asked_for(keyed, backend):
    await play(keyed, backend, "a", 1.0)
    text = (await keyed.get(f"{SEARCH}?environment=echo", headers=ADA)).text
    assert f'href="{EXPORT}?environment=echo&amp;format=atif" download>Download as ATIF</a>' in text
    reply = await keyed.get(f"{EXPORT}?environment=echo&format=atif", headers=ADA)
    assert (reply.status_code, lines(reply)) == (200, ["a"])
    assert reply.headers["content-disposition"] == 'attachment; filename="episodes-1.atif.jsonl"'
    assert [call.meta["row"] for call in backend.calls if call.op is Op.TRAJECTORY] == ["atif"]


async def test_a_download_in_a_format_that_there_is_not_is_refused(keyed, backend):
    reply = await keyed.get(f"{EXPORT}?format=csv", headers=ADA)
    assert (reply.status_code, "is not jsonl or atif" in reply.text) == (422, True)
    assert backend.calls == []


async def test_a_download_needs_a_key(keyed):
    assert (await keyed.get(EXPORT)).status_code == 401


async def test_an_episode_that_is_too_large_is_left_out_and_counted(keyed, backend):
    await play(keyed, backend, "small", 1.0)
    await play(keyed, backend, "large", 1.0)
    backend.episodes["large"].outcome["size"] = 10**9
    assert "1 do not fit a download" in (await keyed.get(SEARCH, headers=ADA)).text
    assert lines(await keyed.get(EXPORT, headers=ADA)) == ["small"]


async def test_a_head_request_fetches_no_episode(keyed, backend):
    await play(keyed, backend, "a", 1.0)
    reply = await keyed.head(EXPORT, headers=ADA)
    assert (reply.status_code, reply.content) == (200, b"")
    assert not [call for call in backend.calls if call.op is Op.TRAJECTORY]


@pytest.mark.parametrize("path", [SEARCH, EXPORT])
@pytest.mark.parametrize("query", ["least_reward=nan", "most_reward=1e999", "until=never", "before=1"])
async def test_a_range_that_cannot_be_is_named_and_nothing_is_searched(keyed, backend, path, query):
    reply = await keyed.get(f"{path}?{query}", headers=ADA)
    assert (reply.status_code, f"{query.partition('=')[0]}: " in reply.text) == (422, True)
    assert backend.calls == []


@pytest.mark.parametrize("op", [Op.SEARCH, Op.TRAJECTORY], ids=["search", "line"])
async def test_a_download_that_fails_before_its_first_line_is_the_page_of_the_error(keyed, backend, op):
    await play(keyed, backend, "a", 1.0)
    backend.failures[op] = ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "s1 is away", retry_after_s=2.0)
    reply = await keyed.get(EXPORT, headers=ADA)
    assert (reply.status_code, reply.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert (reply.headers["retry-after"], "s1 is away" in reply.text) == ("2", True)
