"""The server's answers to bad requests and faults, as agents and their SDKs see them."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from tests.fakes.failing_format import FAILING, UNREAD
from tests.harness.model_calls import sampled_tokens, trained_tokens
from tests.harness.served_gateway import served
from tests.harness.tiny_chat import tiny_chat
from trainer.errors import EngineError
from trainer.model_gateway.budget import ENDED, MOST_REFUSALS
from trainer.model_gateway.calls import CallError
from trainer.model_gateway.server import ServerSettings, SessionRoute

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASK = {"model": "policy", "messages": [{"role": "user", "content": "Hello"}]}
BODIES = {CHAT: ASK, RESPONSES: {"model": "policy", "input": "Hello"}, MESSAGES: {**ASK, "max_tokens": 50}}
PATHS = list(BODIES)


def bearer(session):
    return {"Authorization": f"Bearer {session.api_key}"}


async def post(at, path, body, headers=None, *, prefix=""):
    """The status, the headers and the document or text of an answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{at.gateway.url}{prefix}{path}", data=data, headers=headers) as response,
    ):
        text = await response.text()
        kind = response.content_type
        return response.status, response.headers, json.loads(text) if kind == "application/json" else text


def detail_of(document):
    return document["error"]["message"]


@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_key_is_unauthorised_in_every_dialect(path):
    async with served() as at:
        for headers in ({}, {"Authorization": "Bearer sk-foreign"}, {"x-api-key": "sk-foreign"}):
            status, _, document = await post(at, path, BODIES[path], headers)
            assert status == 401
            assert detail_of(document)
        assert at.policy.asked == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_key_may_be_a_bearer_token_or_a_header_or_in_the_path(path):
    async with served() as at:
        key = at.session.api_key
        for headers, prefix in (
            ({"Authorization": f"Bearer {key}"}, ""),
            ({"x-api-key": key}, ""),
            ({}, f"/s/{key}"),
            ({"Authorization": "Bearer EMPTY"}, f"/s/{key}"),
        ):
            assert (await post(at, path, BODIES[path], headers, prefix=prefix))[0] == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_sealed_session_is_a_conflict_that_sdks_do_not_repeat(path):
    async with served() as at:
        at.session.seal()
        status, headers, document = await post(at, path, BODIES[path], bearer(at.session))
        assert (status, headers["x-should-retry"]) == (409, "false")
        assert "the episode is over" in detail_of(document)


@pytest.mark.parametrize("path", PATHS)
async def test_calls_after_the_end_do_not_disturb_other_sessions(path):
    async with served() as at:
        other = at.open()
        at.gateway.sessions.remove(at.session)
        assert (await post(at, path, BODIES[path], bearer(at.session)))[0] == 409
        assert (await post(at, path, BODIES[path], bearer(other)))[0] == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_foreign_model_is_not_found(path):
    async with served() as at:
        status, _, document = await post(at, path, {**BODIES[path], "model": "gpt"}, bearer(at.session))
        assert status == 404
        assert detail_of(document) == "the model 'gpt' does not exist; use 'policy'"


async def test_a_run_may_answer_to_any_name():
    async with served(settings=ServerSettings(any_model=True)) as at:
        status, _, document = await post(at, CHAT, {**ASK, "model": "gpt"}, bearer(at.session))
        assert (status, document["model"]) == (200, "gpt")


@pytest.mark.parametrize("path", PATHS)
async def test_an_oversize_body_is_refused(path):
    async with served(settings=ServerSettings(most_body_bytes=1000)) as at:
        status, _, document = await post(at, path, b"x" * 2000, bearer(at.session))
        assert status == 413
        assert detail_of(document)
        assert (await post(at, path, BODIES[path], bearer(at.session)))[0] == 200


@pytest.mark.parametrize("path", PATHS)
async def test_sdks_do_not_repeat_a_call_that_a_plugin_failed(path):
    chat = tiny_chat(tool_format=FAILING, tools="prompt")
    async with served(UNREAD, chat=chat) as at:
        status, headers, document = await post(at, path, BODIES[path], bearer(at.session))
        assert (status, headers["x-should-retry"]) == (500, "false")
        assert "FailingFormat" in detail_of(document)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "policy"}', b"\xff\xfe", b"1" * 5000])
async def test_malformed_bodies_name_what_is_wrong(path, body):
    async with served() as at:
        status, headers, document = await post(at, path, body, bearer(at.session))
        assert (status, headers["x-should-retry"]) == (400, "false")
        assert detail_of(document)


@pytest.mark.parametrize(
    ("calls", "where"),
    [
        ([{"id": "1", "type": "function", "function": {}}], "messages.1.tool_calls.0.function.name"),
        ([{"id": "1", "type": "function"}], "messages.1.tool_calls.0.function"),
        ("look", "messages.1.tool_calls"),
        ([{"id": "1", "function": {"name": "look", "arguments": 5}}], "messages.1.tool_calls.0.function"),
    ],
)
async def test_malformed_tool_calls_in_a_history_are_named(calls, where):
    async with served() as at:
        history = [*ASK["messages"], {"role": "assistant", "tool_calls": calls}]
        status, _, document = await post(at, CHAT, {**ASK, "messages": history}, bearer(at.session))
        assert status == 400
        assert document["error"]["param"].startswith(where)


async def test_arguments_that_are_no_json_are_the_models_own_and_are_taken():
    async with served() as at:
        made = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{not json"}}]
        history = [*ASK["messages"], {"role": "assistant", "tool_calls": made}]
        history += [{"role": "tool", "tool_call_id": "1", "content": "invalid arguments"}]
        assert (await post(at, CHAT, {**ASK, "messages": history}, bearer(at.session)))[0] == 200


async def test_an_agent_that_loops_on_malformed_calls_is_refused_at_once():
    async with served() as at:
        for _ in range(MOST_REFUSALS):
            assert (await post(at, CHAT, b"{", bearer(at.session)))[0] == 400
        for body in (b"{", ASK):
            assert (await post(at, CHAT, body, bearer(at.session)))[0] == 409
        assert at.policy.asked == []


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/embeddings", "/s/x/v1/none"])
async def test_unknown_paths_are_answered_with_a_document(path):
    async with served() as at:
        status, _, document = await post(at, path, {})
        assert (status, document["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_failure_of_the_engine_is_503_and_commits_nothing(path, stream):
    async with served(EngineError("lost")) as at:
        body = {**BODIES[path], "stream": stream}
        status, headers, document = await post(at, path, body, bearer(at.session))
        assert (status, headers["Retry-After"]) == (503, "1")
        assert detail_of(document) == "the model could not answer; try again"
        recording = await at.session.close()
        assert recording.segments == ()
        assert isinstance(recording.failure, EngineError)


async def test_a_late_failure_is_an_event_of_the_stream():
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    settings = ServerSettings(hold_s=0.0, keep_alive_s=0.01)
    async with served(EngineError("lost"), settings=settings) as at:
        async with at.openai(max_retries=0) as client:
            with pytest.raises(openai.APIError, match="could not answer"):
                async for _ in await client.chat.completions.create(**ASK, stream=True):
                    pass
            with pytest.raises(openai.APIError, match="could not answer"):
                async for _ in await client.responses.create(**BODIES[RESPONSES], stream=True):
                    pass
        async with at.anthropic(max_retries=0) as client:
            with pytest.raises(anthropic.APIStatusError, match="could not answer"):
                async for _ in await client.messages.create(**BODIES[MESSAGES], stream=True):
                    pass


async def test_a_stream_is_kept_alive_while_the_answer_is_sampled():
    settings = ServerSettings(hold_s=0.0, keep_alive_s=0.01)
    async with served("5", settings=settings) as at:
        at.policy.gate = asyncio.Event()
        async with aiohttp.ClientSession(headers=bearer(at.session)) as client:
            for path, sign in (
                (CHAT, b": keep-alive"),
                (RESPONSES, b": keep-alive"),
                (MESSAGES, b"event: ping"),
            ):
                at.policy.gate.clear()
                body = {**BODIES[path], "stream": True}
                async with client.post(at.gateway.url + path, json=body) as response:
                    assert response.status == 200
                    assert sign in await response.content.readline()
                    at.policy.gate.set()
                    assert b"5" in await response.read()


async def test_clients_read_a_stream_that_was_kept_alive():
    settings = ServerSettings(hold_s=0.0, keep_alive_s=0.01)
    async with served("5", settings=settings) as at, at.anthropic() as claude, at.openai() as client:
        chunks = [each async for each in await client.chat.completions.create(**ASK, stream=True)]
        assert "".join(each.choices[0].delta.content or "" for each in chunks) == "5"
        async with claude.messages.stream(**BODIES[MESSAGES]) as events:
            assert (await events.get_final_message()).content[0].text == "5"


async def test_a_client_that_disconnects_and_retries_joins_its_call():
    async with served("5") as at:
        at.policy.gate = asyncio.Event()
        headers = bearer(at.session)
        gone = asyncio.create_task(post(at, CHAT, ASK, headers))
        await at.policy.asked_for(1)
        gone.cancel()
        again = asyncio.create_task(post(at, CHAT, ASK, {**headers, "x-stainless-retry-count": "1"}))
        at.policy.gate.set()
        status, _, document = await again
        assert (status, document["choices"][0]["message"]["content"]) == (200, "5")
        recording = await at.session.close()
        assert len(recording.calls) == len(at.policy.asked) == 1


async def test_the_sdks_own_retry_after_a_timeout_is_the_same_call():
    async with served("5") as at, at.openai(timeout=0.2, max_retries=5) as client:
        at.policy.gate = asyncio.Event()
        waiting = asyncio.create_task(client.chat.completions.create(**ASK))
        await at.policy.asked_for(1)
        await asyncio.sleep(0.5)
        at.policy.gate.set()
        assert (await waiting).choices[0].message.content == "5"
        recording = await at.session.close()
        assert len(recording.calls) == len(at.policy.asked) == 1


async def test_an_idempotency_key_is_answered_again_and_refused_for_another_body():
    async with served("5", "6") as at:
        headers = {**bearer(at.session), "Idempotency-Key": "k"}
        first = await post(at, CHAT, ASK, headers)
        assert (await post(at, CHAT, ASK, headers))[2] == first[2]
        status, _, document = await post(at, CHAT, {**ASK, "stop": "x"}, headers)
        assert (status, document["error"]["param"]) == (400, "Idempotency-Key")


async def test_closing_a_session_answers_its_calls_in_progress():
    async with served("5") as at:
        at.policy.gate = asyncio.Event()
        waiting = [asyncio.create_task(post(at, path, BODIES[path], bearer(at.session))) for path in PATHS]
        await at.policy.asked_for(3)
        await at.session.close()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [409] * 3


async def test_too_many_calls_at_once_are_told_to_wait():
    async with served("5", concurrent_calls=1) as at:
        at.policy.gate = asyncio.Event()
        first = asyncio.create_task(post(at, CHAT, ASK, bearer(at.session)))
        await at.policy.asked_for(1)
        status, headers, _ = await post(at, CHAT, ASK, bearer(at.session))
        assert (status, headers["Retry-After"]) == (429, "1")
        at.policy.gate.set()
        assert (await first)[0] == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_end_of_the_budget_is_an_ordinary_answer(path, stream):
    async with served("5", turns=0) as at:
        status, _, document = await post(at, path, {**BODIES[path], "stream": stream}, bearer(at.session))
        assert status == 200
        assert ENDED in (document if stream else json.dumps(document))


async def test_a_thousand_sessions_are_open_at_once():
    async with served("5") as at:
        at.policy.gate = asyncio.Event()
        sessions = [at.open() for _ in range(1000)]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(at.gateway.url, connector=connector) as client:

            async def ask(session):
                async with client.post(CHAT, json=ASK, headers=bearer(session)) as response:
                    return response.status

            waiting = [asyncio.create_task(ask(session)) for session in sessions]
            await at.policy.asked_for(1000)
            at.policy.gate.set()
            assert await asyncio.gather(*waiting) == [200] * 1000
        recordings = [await session.close() for session in sessions]
        assert sorted(token for each in recordings for token in trained_tokens(each)) == sampled_tokens(
            at.policy
        )


async def test_tokens_are_counted_and_not_recorded():
    async with served("5") as at, at.anthropic() as client:
        counted = await client.messages.count_tokens(model="policy", messages=ASK["messages"])
        answer = await client.messages.create(**BODIES[MESSAGES])
        assert counted.input_tokens == answer.usage.input_tokens
        assert len((await at.session.close()).calls) == 1


async def test_the_model_and_its_context_are_listed_in_both_families():
    async with served(context_tokens=777) as at, at.openai() as client, at.anthropic() as claude:
        (model,) = (await client.models.list()).data
        assert (model.id, model.model_extra["max_model_len"]) == ("policy", 777)
        (model,) = (await claude.models.list()).data
        assert model.id == "policy"


async def test_the_model_is_described_by_its_name_in_both_families():
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    async with served(context_tokens=777) as at, at.openai() as client, at.anthropic() as claude:
        model = await client.models.retrieve("policy")
        assert (model.id, model.model_extra["max_model_len"]) == ("policy", 777)
        assert (await claude.models.retrieve("policy")).id == "policy"
        with pytest.raises(openai.NotFoundError, match="the model 'gpt' does not exist; use 'policy'"):
            await client.models.retrieve("gpt")
        with pytest.raises(anthropic.NotFoundError, match="does not exist"):
            await claude.models.retrieve("gpt")


async def test_a_run_that_answers_to_any_name_describes_the_model_by_it():
    async with served(settings=ServerSettings(any_model=True)) as at, at.openai() as client:
        assert (await client.models.retrieve("Qwen/Qwen3-0.6B")).id == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/policy"])
@pytest.mark.parametrize("headers", [{}, {"anthropic-version": "2023-06-01"}])
async def test_models_are_listed_for_sessions_only(headers, path):
    async with (
        served() as at,
        aiohttp.ClientSession(headers=headers) as client,
        client.get(f"{at.gateway.url}{path}") as response,
    ):
        assert response.status == 401


async def test_further_routes_are_given_the_session():
    async def greet(request, session):
        if request.query:
            raise CallError(409, "episode_over", "the episode is over")
        return web.json_response({"session": session.id, "said": (await request.json())["said"]})

    async def fail(request, session):
        raise ZeroDivisionError

    routes = [SessionRoute("POST", "/greet", greet), SessionRoute("POST", "/fail", fail)]
    async with served(extra_routes=routes) as at:
        headers = bearer(at.session)
        answer = {"session": at.session.id, "said": "hi"}
        assert (await post(at, "/greet", {"said": "hi"}, headers))[2] == answer
        assert (await post(at, "/greet", {"said": "hi"}, prefix=f"/s/{at.session.api_key}"))[2] == answer
        assert (await post(at, "/greet", {"said": "hi"}))[0] == 401
        assert (await post(at, "/greet?over=1", {}, headers))[0] == 409
        assert (await post(at, "/fail", {}, headers))[0] == 500
