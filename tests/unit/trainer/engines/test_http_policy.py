"""A policy over a server's routes: what it asks for, what it makes of answers, and of a server's faults."""

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.vllm_server import CONTEXT, FakeVllmServer
from tests.harness.waiting import until
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.engines.http_policy import HttpLimits, open_http_policy
from trainer.errors import EngineError, EngineLost, Stalled
from trainer.types import EpisodeKey, TaskRef, VersionSpan

LIMITS = HttpLimits(generate_s=20, answer_s=5, unreachable_s=20, probe_s=20, retry_s=0.001)
STOP = Sampling(stop_ids=(2,))

ROUTES = pytest.mark.parametrize("generate", [True, False], ids=["generate", "completions"])


def request(tokens=4, **changes):
    key = EpisodeKey("0.0", TaskRef("e", "s", "t"), 0)
    return replace(GenerationRequest(key, (1, 2, 3), tokens, STOP, seed=7), **changes)


@ROUTES
async def test_token_ids_go_in_and_token_ids_with_log_probabilities_come_out(generate):
    fake = FakeVllmServer(generate=generate)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        generation = await policy.generate(request())
        assert generation.token_ids == (4, 5, 6, 7)
        assert generation.logprobs == (-4.0, -5.0, -6.0, -7.0)
        assert generation.finish is Finish.STOP
        assert (policy.model, policy.context) == ("m", CONTEXT)
        assert fake.sessions[-1] == "0.0"


@ROUTES
async def test_a_request_says_everything_that_a_server_would_else_take_from_the_models_files(generate):
    fake = FakeVllmServer(generate=generate)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        await policy.generate(request())
    params = fake.asked[-1]["sampling_params"] if generate else fake.asked[-1]
    assert {name: params[name] for name in ("temperature", "top_p", "top_k", "min_p", "seed")} == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "seed": 7,
    }
    assert params["repetition_penalty"] == 1.0
    assert params["presence_penalty"] == params["frequency_penalty"] == 0.0
    assert (params["stop_token_ids"], params["ignore_eos"]) == ([2], True)


async def test_the_route_with_weight_versions_is_preferred():
    fake = FakeVllmServer(version="12")
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert policy.versioned
        assert (await policy.generate(request())).versions == (VersionSpan(0, 4, 12),)
    fake = FakeVllmServer(generate=False)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert not policy.versioned
        assert (await policy.generate(request())).versions == ()


async def test_weights_that_were_never_updated_are_version_0_and_a_label_that_is_no_number_is_refused():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert (await policy.generate(request())).versions == (VersionSpan(0, 4, 0),)
        fake.version = "after-lunch"
        with pytest.raises(EngineError, match="'after-lunch'; weight versions must be whole numbers"):
            await policy.generate(request())


async def test_a_turn_is_no_longer_than_the_servers_context():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert len((await policy.generate(request(tokens=1000))).token_ids) == CONTEXT - 3
        asked = len(fake.asked)
        full = await policy.generate(request(token_ids=(1,) * CONTEXT))
        assert (full.token_ids, full.finish) == ((), Finish.LENGTH)
        assert len(fake.asked) == asked


@ROUTES
async def test_the_prompt_tokens_that_were_cached_are_known_where_the_server_says_them(generate):
    fake = FakeVllmServer(generate=generate)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert (await policy.generate(request())).cached is None
        fake.cached = 2
        assert (await policy.generate(request())).cached == 2


async def test_what_a_weight_update_aborts_is_continued_from_its_tokens():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.cut, fake.cached = [2, 0], 1
        generation = await policy.generate(request())
        assert (generation.token_ids, generation.cached) == ((4, 5, 6, 7), 1)
    assert [body["token_ids"] for body in fake.asked[-3:]] == [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert fake.asked[-1]["sampling_params"]["max_tokens"] == 2


@ROUTES
@pytest.mark.parametrize("fault", ["drop", 429, 502, 503])
async def test_a_request_that_was_not_served_is_repeated(generate, fault):
    fake = FakeVllmServer(generate=generate)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.faults = [fault, fault]
        assert (await policy.generate(request())).token_ids == (4, 5, 6, 7)


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_a_refusal_is_an_error_with_the_servers_words(status):
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.faults = [status]
        asked = len(fake.asked)
        with pytest.raises(EngineError, match=f"the server answered {status}: planned"):
            await policy.generate(request())
        assert len(fake.asked) == asked + 1


@pytest.mark.parametrize("fault", ["drop", 504])
async def test_a_turn_that_breaks_off_after_long_sampling_is_repeated(fault):
    fake = FakeVllmServer()
    limits = replace(LIMITS, unreachable_s=0.5)
    async with fake.serving() as url, open_http_policy(url, limits=limits) as policy:
        fake.faults, fake.before_fault_s = [fault, fault], 0.6
        assert (await policy.generate(request())).token_ids == (4, 5, 6, 7)


async def test_a_turn_that_a_proxy_always_ends_is_sampled_three_times_at_most():
    fake = FakeVllmServer()
    async with (
        fake.serving() as url,
        open_http_policy(url, limits=replace(LIMITS, unreachable_s=0.1)) as policy,
    ):
        fake.faults, fake.before_fault_s, asked = [504] * 100, 0.2, len(fake.asked)
        with pytest.raises(EngineLost, match="the server answered 504: planned"):
            await policy.generate(request())
        assert len(fake.asked) <= asked + 3


async def test_a_server_that_stays_away_is_lost():
    limits = replace(LIMITS, unreachable_s=0.02)
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=limits) as policy:
        fake.faults = [503] * 1000
        with pytest.raises(
            EngineLost, match=r"did not serve /inference/v1/generate for 0\.02 s: .*503: planned"
        ):
            await policy.generate(request())
    with pytest.raises(EngineLost, match="did not serve /v1/models"):
        async with open_http_policy(url, limits=limits):
            pass


async def test_a_turn_ends_at_its_limit_with_the_tokens_so_far_where_the_server_can_do_that():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.slow = asyncio.Event()
        generation = await policy.generate(request(limit_s=0.05))
        assert (generation.token_ids, generation.finish) == ((4, 5), Finish.TIMEOUT)


async def test_a_limit_that_passes_before_the_server_has_the_request_ends_it_all_the_same():
    fake = FakeVllmServer()
    limits = replace(LIMITS, retry_s=0.2)
    async with fake.serving() as url, open_http_policy(url, limits=limits) as policy:
        fake.slow, fake.faults = asyncio.Event(), [503]
        generation = await policy.generate(request(limit_s=0.01))
        assert (generation.token_ids, generation.finish) == ((4, 5), Finish.TIMEOUT)


async def test_a_turn_that_is_not_sampled_within_its_limit_is_a_stall_and_leaves_nothing_running():
    fake = FakeVllmServer(generate=False)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.slow = asyncio.Event()
        with pytest.raises(Stalled, match=r"turn 0 of episode 0\.0 was not sampled within 0\.05 s"):
            await policy.generate(request(limit_s=0.05))
        await until(lambda: fake.gone == 1)


async def test_a_turn_that_was_refused_until_its_limit_says_why():
    fake = FakeVllmServer(generate=False)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.faults = [503] * 10_000
        with pytest.raises(
            Stalled, match=r"within 0\.2 s; its last failed attempt: the server answered 503: pl"
        ):
            await policy.generate(request(limit_s=0.2))


async def test_log_probabilities_before_temperature_are_recognised_and_refused_where_they_would_be_wrong():
    async with FakeVllmServer().serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        for plain in (STOP, Sampling(temperature=0.0)):
            await policy.generate(request(sampling=plain))
        for other in (Sampling(temperature=0.7), Sampling(top_p=0.9), Sampling(top_k=20)):
            with pytest.raises(EngineError, match="--logprobs-mode processed_logprobs"):
                await policy.generate(request(sampling=other))
    fake = FakeVllmServer(processed=True)
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert (await policy.generate(request(sampling=Sampling(temperature=0.7)))).token_ids


async def test_a_server_that_returns_no_token_ids_is_refused_with_what_it_lacks():
    fake = FakeVllmServer(generate=False, token_ids=False)
    async with fake.serving() as url:
        with pytest.raises(EngineError, match="returns no token ids; it must be a vLLM that supports"):
            async with open_http_policy(url, limits=LIMITS):
                pass


async def test_a_server_without_a_token_route_is_refused_with_what_its_routes_said():
    fake = FakeVllmServer(generate=False, completions=False)
    async with fake.serving() as url:
        with pytest.raises(EngineError, match=r"generate: the server answered 403: Scale-out .*completions"):
            async with open_http_policy(url, limits=LIMITS):
                pass


async def test_an_answer_that_is_not_vllms_is_an_error():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        fake.faults = ["garbage"]
        with pytest.raises(EngineError, match="the server's answer is not vLLM's"):
            await policy.generate(request())


async def test_of_several_models_one_must_be_named():
    fake = FakeVllmServer(models=("base", "adapter"))
    async with fake.serving() as url:
        with pytest.raises(EngineError, match="several models; name one of: base, adapter"):
            async with open_http_policy(url, limits=LIMITS):
                pass
        with pytest.raises(EngineError, match="no model 'other'; name one of: base, adapter"):
            async with open_http_policy(url, model="other", limits=LIMITS):
                pass
        async with open_http_policy(url, model="adapter", limits=LIMITS) as policy:
            await policy.generate(request())
    assert fake.asked[-1]["model"] == "adapter"


async def test_the_key_of_the_server_is_sent():
    fake = FakeVllmServer(key="hush")
    async with fake.serving() as url:
        with pytest.raises(EngineError, match="401"):
            async with open_http_policy(url, limits=LIMITS):
                pass
        async with open_http_policy(f"{url}/v1/", api_key="hush", limits=LIMITS) as policy:
            assert policy.model == "m"


async def test_the_servers_tokens_of_a_text_are_known_where_it_has_a_tokenizer():
    fake = FakeVllmServer()
    async with fake.serving() as url, open_http_policy(url, limits=LIMITS) as policy:
        assert await policy.tokenize("abc") is None
        fake.tokenizer = lambda text: [ord(letter) for letter in text]
        assert await policy.tokenize("abc") == (97, 98, 99)


async def test_a_tokenizer_that_does_not_answer_is_not_waited_for_without_end():
    fake = FakeVllmServer(tokenizer=lambda _: [1], tokenizes=False)
    limits = replace(LIMITS, tokenize_s=0.01)
    async with fake.serving() as url, open_http_policy(url, limits=limits) as policy:
        with pytest.raises(Stalled, match="did not answer /tokenize"):
            await asyncio.wait_for(policy.tokenize("abc"), 10)
