"""Releasing from the console: who may, which sites may, and what the answer says."""

import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ApiKeyConfig, Rights, ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_client

KEYS = ServerConfig(
    api_keys={
        digest("writer"): "ada",
        digest("reader"): ApiKeyConfig(tenant="ada", rights=Rights.READ),
        digest("other"): "eve",
    }
)
PATH = "/console/episodes/one/release"
OVERVIEW, EPISODE = "/console", "/console/episodes/one"


class LongHistories(EchoBackend):
    """A fleet in which further events follow on the next page of every history."""

    async def call(self, op, **details):
        reply = await super().call(op, **details)
        if op is not Op.TRAJECTORY:
            return reply
        document = json.dumps({**json.loads(reply.body), "next_cursor": "0"}).encode()
        return Frame(Op.REPLY, 0, reply.instance_id, reply.meta, document)


@pytest.fixture
async def keyed(backend):
    """A client of a service with keys, where ada has a live instance."""
    async with make_client(backend, KEYS) as client:
        body = {"environment": "echo", "task_id": "echo-10", "instance_id": "one"}
        reply = await client.post("/v1/create_instance", json=body, headers={"X-API-Key": "writer"})
        assert reply.status_code == 200
        yield client


async def sign_in(client, key):
    assert (await client.post("/console/login", data={"key": key})).status_code == 303


def released(backend):
    return [call.instance_id for call in backend.calls if call.op is Op.RELEASE]


async def test_a_live_instance_links_to_a_question_whose_form_releases_it(keyed, backend):
    await sign_in(keyed, "writer")
    for page in (OVERVIEW, EPISODE):
        assert f'href="{PATH}"' in (await keyed.get(page)).text
    question = await keyed.get(PATH)
    assert (question.status_code, released(backend)) == (200, [])
    assert f'<form method="post" action="{PATH}"' in question.text
    answer = await keyed.post(PATH, headers={"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, "Released one" in answer.text) == (200, True)
    assert released(backend) == ["one"]
    assert f'href="{PATH}"' not in (await keyed.get(OVERVIEW)).text


async def test_the_first_page_of_a_long_episode_has_the_button_while_the_instance_lives():
    async with make_client(LongHistories()) as client:
        body = {"environment": "echo", "task_id": "echo-10", "instance_id": "one"}
        await client.post("/v1/create_instance", json=body)
        assert f'href="{PATH}"' in (await client.get(EPISODE)).text
        await client.post(PATH)
        assert f'href="{PATH}"' not in (await client.get(EPISODE)).text


async def test_an_instance_that_had_ended_is_said_to_have(keyed):
    await sign_in(keyed, "writer")
    await keyed.post(PATH)
    answer = await keyed.post(PATH)
    assert (answer.status_code, "one had ended already" in answer.text) == (200, True)
    question = await keyed.get(PATH)
    assert "its state is released" in question.text
    assert '<form method="post" action="/console/episodes' not in question.text


async def test_a_read_only_key_sees_no_button_and_is_refused(keyed, backend):
    await sign_in(keyed, "reader")
    for page in (OVERVIEW, EPISODE):
        reply = await keyed.get(page)
        assert (reply.status_code, "/release" in reply.text) == (200, False)
    for method in ("GET", "POST"):
        assert (await keyed.request(method, PATH)).status_code == 403
    assert released(backend) == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_another_tenants_instance_is_like_one_that_does_not_exist(keyed, backend, method):
    await sign_in(keyed, "other")
    replies = [await keyed.request(method, path) for path in (PATH, PATH.replace("one", "two"))]
    texts = [reply.text.replace("two", "one") for reply in replies]
    assert [reply.status_code for reply in replies] == [404, 404]
    assert texts[0] == texts[1]
    assert "Nothing was released" in texts[0]
    assert not backend.episodes["one"].released


async def test_without_a_key_nothing_is_released(keyed, backend):
    assert (await keyed.post(PATH)).status_code == 401
    assert released(backend) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://localhost:81"},
    ],
    ids=str,
)
@pytest.mark.parametrize("config", [KEYS, ServerConfig()], ids=["keys", "no keys"])
async def test_pages_of_other_sites_release_nothing(backend, config, headers):
    async with make_client(backend, config) as client:
        if config is KEYS:
            await sign_in(client, "writer")
        reply = await client.post(PATH, headers=headers)
    assert reply.status_code == 403
    assert released(backend) == []


async def test_a_service_without_keys_answers_its_own_names_only(client, backend, instance):
    path = f"/console/episodes/{instance}/release"
    rebound = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    for method in ("GET", "POST"):
        assert (await client.request(method, path, headers=rebound)).status_code == 403
    assert released(backend) == []
    assert (await client.post(path)).status_code == 200
    assert released(backend) == [instance]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_name_that_is_no_id_is_not_found(client, backend, method):
    assert (await client.request(method, "/console/episodes/-x/release")).status_code == 404
    assert backend.calls == []


async def test_an_instance_that_is_busy_is_an_error_page(client, backend, instance):
    backend.failures[Op.RELEASE] = ServiceError(ErrorCode.INSTANCE_BUSY, "the instance is being created")
    reply = await client.post(f"/console/episodes/{instance}/release")
    assert (reply.status_code, "is being created" in reply.text) == (409, True)
