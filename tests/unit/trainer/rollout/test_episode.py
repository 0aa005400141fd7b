"""Episodes by a script, against a service that is told what to answer, over the real client."""

import asyncio

import pytest

from sandbox_service.contract.problems import ErrorCode
from tests.fakes.tiny_chat import tiny_chat
from tests.fakes.told_service import ToldService, observed
from trainer.config.rollout import RolloutConfig, SamplingConfig, ServiceConfig
from trainer.errors import ConfigError, EngineLost
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.policy import Finish, Generation
from trainer.rollout.scripted import ScriptedPolicy
from trainer.rollout.watch import Watch
from trainer.types import GroupSpec, StopReason, TaskRef, Trajectory, VersionSpan

PROGRAM = "```python\nprint(37+58)\n```"
SUBMIT = '<tool_call>{"name": "submit", "arguments": {"answer": "95"}}</tool_call>'
TASK = TaskRef("code", "train", "t")
END = observed("Submitted.", terminated=True)
TOOL = {"type": "function", "function": {"name": "submit", "description": "", "parameters": {}}}


def spec_of(max_turns: int = 8) -> GroupSpec:
    return GroupSpec(index=3, task=TASK, seed=40, size=4, max_turns=max_turns)


async def play(
    service: ToldService,
    *lines: str,
    chat: dict | None = None,
    config: dict | None = None,
    sampling: dict | None = None,
    max_turns: int = 8,
    **parts: object,
) -> Trajectory:
    tokenizer = tiny_chat(**(chat or {}))
    policy = parts.pop("policy", None) or ScriptedPolicy({"t": lines}, tokenizer)
    times = ServiceConfig.model_validate(parts.pop("service_times", {}))
    async with service.client(**parts.pop("transport", {})) as client:
        player = EpisodePlayer(
            client, policy, tokenizer, RolloutConfig.model_validate(config or {}), times, **parts
        )
        return await player.play(spec_of(max_turns), 2, SamplingConfig.model_validate(sampling or {}))


def spoken(trajectory: Trajectory) -> list[str]:
    chat = tiny_chat()
    return [
        chat.said(segment.token_ids[turn.start : turn.end])
        for segment in trajectory.segments
        for turn in segment.turns
    ]


async def test_an_episode_is_played_graded_and_released() -> None:
    service = ToldService([observed("95", reward=0.5), END])
    played = await play(service, PROGRAM, SUBMIT)
    assert (played.id, played.task, played.seed) == ("3.2", TASK, 42)
    assert (played.stop, played.score, played.success) == (StopReason.TERMINATED, 1.0, True)
    assert played.scored
    assert spoken(played) == [PROGRAM, SUBMIT]
    assert [turn.reward for turn in played.turns] == [0.5, 0.0]
    assert played.instance_id == "i0"
    assert service.live == {}
    verbs = [verb for verb, _ in service.requests]
    assert verbs == ["create_instance", "step", "step", "evaluate", "release_instance"]


async def test_what_was_sampled_is_what_is_trained_on() -> None:
    played = await play(ToldService([observed("95"), END]), PROGRAM, SUBMIT)
    (segment,) = played.segments
    chat = tiny_chat()
    trained = [token for token, on in zip(segment.token_ids, segment.loss_mask, strict=True) if on]
    assert trained == [*chat.turn(PROGRAM), *chat.turn(SUBMIT)]
    assert all(
        (logprob == 0.0) != on for logprob, on in zip(segment.logprobs, segment.loss_mask, strict=True)
    )
    assert segment.loss_mask[-1]
    assert chat.decode(segment.token_ids) == (
        "<|system|>You solve a task.<|end|><|user|>compute 37 plus 58<|end|>"
        f"<|assistant|>{PROGRAM}<|end|><|user|>95<|end|><|assistant|>{SUBMIT}<|end|>"
    )


async def test_version_spans_are_in_the_segments_own_positions() -> None:
    played = await play(ToldService([observed("95"), END]), PROGRAM, SUBMIT)
    for turn in played.turns:
        assert turn.versions == (VersionSpan(turn.start, turn.end, 0),)


async def test_people_read_every_message_also_the_last() -> None:
    played = await play(ToldService([observed("95"), END]), PROGRAM, SUBMIT)
    assert [line.role for line in played.lines] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert [line.content for line in played.lines[2:]] == [PROGRAM, "95", SUBMIT, "Submitted."]


async def test_all_members_of_a_group_meet_the_same_world() -> None:
    service = ToldService([END])
    await play(service, SUBMIT, config={"params": {"shaping": {"length": 0.1}}, "fresh": True})
    (created,) = service.bodies("create_instance")
    assert (created["seed"], created["fresh"]) == (40, True)
    assert created["params"] == {"shaping": {"length": 0.1}}


async def test_the_evaluations_parameters_are_sent() -> None:
    service = ToldService([END])
    await play(service, SUBMIT, config={"evaluation_params": {"sparse": True}})
    assert service.bodies("evaluate")[0]["params"] == {"sparse": True}


@pytest.mark.parametrize(
    ("steps", "settings", "stop", "turns"),
    [
        ([observed("95"), observed("late", truncated=True)], {}, StopReason.TRUNCATED, 2),
        ([observed("1"), observed("2"), observed("3")], {"max_turns": 2}, StopReason.HORIZON, 2),
        ([observed("x " * 600)], {}, StopReason.CONTEXT_FULL, 1),
        ([], {"config": {"max_context_tokens": 10}}, StopReason.CONTEXT_FULL, 0),
        (
            [observed("cut")],
            {"config": {"cut_turns": "stop"}, "sampling": {"max_turn_tokens": 3}},
            StopReason.TURN_CUT,
            1,
        ),
    ],
    ids=["steps", "horizon", "long-answer", "long-opening", "cut-turn"],
)
async def test_an_episode_that_is_stopped_is_graded_as_it_stands(steps, settings, stop, turns) -> None:
    service = ToldService(steps, verdict={"score": 0.25, "success": False})
    played = await play(service, *[PROGRAM] * 3, **settings)
    assert (played.stop, played.score, len(played.turns)) == (stop, 0.25, turns)
    assert service.live == {}


async def test_a_turn_never_gets_more_tokens_than_there_is_room_for() -> None:
    service = ToldService([observed("a"), observed("b")] * 8)
    played = await play(service, *["word " * 200] * 8, config={"max_context_tokens": 200})
    assert all(len(segment.token_ids) <= 200 for segment in played.segments)
    assert played.stop is StopReason.CONTEXT_FULL


async def test_a_cut_turn_is_sent_and_gets_its_end_unsampled() -> None:
    service = ToldService([observed("95"), END])
    played = await play(service, PROGRAM, SUBMIT, sampling={"max_turn_tokens": 5})
    (segment,) = played.segments
    first = segment.turns[0]
    assert first.cut
    assert first.end - first.start == 5
    chat = tiny_chat()
    assert segment.token_ids[first.end] == chat.stop_ids[0]
    assert not segment.loss_mask[first.end]
    assert service.bodies("step")[0]["message"]["content"] == "```python\nprint(37+5"


async def test_a_full_context_forgets_the_oldest_exchanges_in_a_new_segment() -> None:
    service = ToldService([observed(f"answer {number} " + "word " * 20) for number in range(6)])
    lines = [f"```python\nprint({number})\n```" for number in range(6)]
    played = await play(
        service, *lines, config={"when_full": "forget", "max_context_tokens": 200}, max_turns=6
    )
    assert played.stop is StopReason.HORIZON
    assert spoken(played) == lines
    assert len(played.segments) > 1
    chat = tiny_chat()
    for segment in played.segments:
        text = chat.decode(segment.token_ids)
        assert text.startswith("<|system|>You solve a task.<|end|><|user|>compute 37 plus 58<|end|>")
        assert len(segment.token_ids) <= 200
    later = played.segments[1]
    assert "print(0)" not in chat.decode(later.token_ids)
    assert not any(later.loss_mask[: later.turns[0].start])


async def test_another_session_begins_a_segment_with_nothing_of_the_first() -> None:
    opening = {"messages": [{"role": "user", "content": "Second talk."}]}
    steps = [{"observation": opening, "info": {"new_session": True}}, END]
    played = await play(ToldService(steps), "Bye.", SUBMIT)
    first, second = played.segments
    chat = tiny_chat()
    assert chat.decode(first.token_ids).endswith("<|assistant|>Bye.<|end|>")
    assert chat.decode(second.token_ids).startswith("<|user|>Second talk.<|end|><|assistant|>")
    assert played.score == 1.0


async def test_other_tools_begin_a_segment_with_all_history() -> None:
    later = {"type": "function", "function": {"name": "later", "description": "", "parameters": {}}}
    steps = [observed("Here is more.", info={"tools": [TOOL, later]}), END]
    service = ToldService(steps, tools=[TOOL])
    played = await play(service, "Wait.", SUBMIT, chat={"tools": "prompt"})
    first, second = (tiny_chat().decode(segment.token_ids) for segment in played.segments)
    assert '"later"' not in first
    assert '"later"' in second
    assert "<|assistant|>Wait.<|end|><|user|>Here is more.<|end|><|assistant|>" in second


@pytest.mark.parametrize("told", [{"tools": [TOOL]}, {}], ids=["same-tools", "no-word"])
async def test_the_same_tools_begin_nothing(told) -> None:
    service = ToldService([observed("More.", info=told), END], tools=[TOOL])
    assert len((await play(service, "Wait.", SUBMIT, chat={"tools": "prompt"})).segments) == 1


async def test_native_calls_are_sent_with_ids_that_no_turn_shares() -> None:
    service = ToldService([observed("95", role="tool", tool_call_id="x"), END], tools=[TOOL])
    call = '<tool_call>{"name": "submit", "arguments": {"answer": 95}}</tool_call>'
    await play(service, call, call, chat={"tool_format": "hermes"})
    sent = [body["message"]["tool_calls"][0] for body in service.bodies("step")]
    assert [call["id"] for call in sent] == ["000000000", "000000001"]
    assert sent[0]["function"] == {"name": "submit", "arguments": '{"answer": 95}'}


@pytest.mark.parametrize(
    ("verb", "code", "failure_class", "phase"),
    [
        ("create_instance", ErrorCode.QUOTA_EXCEEDED, "capacity", "create"),
        ("create_instance", ErrorCode.TASK_INVALID, "task", "create"),
        ("step", ErrorCode.INSTANCE_LOST, "sandbox", "step"),
        ("step", ErrorCode.STEP_TIMEOUT, "timeout", "step"),
        ("step", ErrorCode.STEP_INDEX_MISMATCH, "request", "step"),
        ("evaluate", ErrorCode.GRADER_FAILED, "task", "evaluate"),
    ],
)
async def test_a_failure_of_the_service_is_a_note_and_no_score(verb, code, failure_class, phase) -> None:
    service = ToldService([END], refuses={verb: code})
    played = await play(service, SUBMIT)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == (failure_class, code.value)
    assert played.failure.phase == phase
    assert (played.stop, played.score, played.success) == (StopReason.FAILED, None, None)
    assert not played.scored
    assert service.live == {}
    assert played.failure.retry_after_s == (2.5 if code is ErrorCode.QUOTA_EXCEEDED else None)
    assert played.failure.instance_id == ("" if phase == "create" else "i0")


async def test_what_was_played_before_a_failure_is_kept() -> None:
    played = await play(ToldService([observed("95"), ErrorCode.SANDBOX_FAILED]), PROGRAM, SUBMIT)
    assert spoken(played) == [PROGRAM, SUBMIT]
    assert played.failure is not None


class FailingPolicy:
    async def generate(self, request) -> Generation:
        raise EngineLost("it died")


class SilentPolicy:
    async def generate(self, request) -> Generation:
        await asyncio.sleep(3600)
        raise AssertionError


class InterruptedPolicy:
    async def generate(self, request) -> Generation:
        return Generation((70,), (-1.0,), Finish.ABORT, (VersionSpan(0, 1, 0),))


@pytest.mark.parametrize(
    ("policy", "code"),
    [(FailingPolicy(), "engine_lost"), (SilentPolicy(), "stalled"), (InterruptedPolicy(), "engine_error")],
    ids=["lost", "silent", "interrupted"],
)
async def test_an_engines_failure_is_a_note_of_its_own_class(policy, code) -> None:
    service = ToldService([END])
    played = await play(service, policy=policy, config={"generate_timeout_s": 0.05})
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("engine", code)
    assert played.failure.phase == "generate"
    assert service.live == {}


async def test_a_sandbox_that_says_nothing_is_a_timeout_that_names_the_phase() -> None:
    async def pause(request) -> None:
        await asyncio.sleep(3600 if request.url.path.endswith("evaluate") else 0)

    service = ToldService([END])
    played = await play(
        service, SUBMIT, transport={"pause": pause}, service_times={"evaluate_timeout_s": 0.05}
    )
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.phase) == ("timeout", "evaluate")
    assert service.live == {}


async def test_an_episode_that_takes_too_long_is_a_timeout() -> None:
    async def pause(request) -> None:
        await asyncio.sleep(3600 if request.url.path.endswith("step") else 0)

    service = ToldService([END])
    played = await play(service, SUBMIT, transport={"pause": pause}, config={"episode_timeout_s": 0.05})
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("timeout", "stalled")
    assert "in step" in played.failure.detail
    assert service.live == {}


async def test_a_cancelled_episode_is_released() -> None:
    asked = asyncio.Event()

    class Asked(SilentPolicy):
        async def generate(self, request) -> Generation:
            asked.set()
            return await super().generate(request)

    service = ToldService([END])
    task = asyncio.create_task(play(service, policy=Asked()))
    await asked.wait()
    assert list(service.live) == ["i0"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.live == {}


async def test_tools_that_are_none_are_the_services_failure() -> None:
    played = await play(ToldService([observed("x", info={"tools": [{"name": 1}]})]), "Wait.")
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("sandbox", "invalid_response")


async def test_turns_that_were_not_written_as_their_text_would_be_are_counted() -> None:
    chat = tiny_chat()
    letters = [chat.encode(letter)[0] for letter in "Submitted."]

    class Speller:
        async def generate(self, request) -> Generation:
            ids = (*letters, chat.stop_ids[0])
            return Generation(ids, (-1.0,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 0),))

    assert (await play(ToldService([END]), policy=Speller())).drifted == 1
    assert (await play(ToldService([END]), SUBMIT)).drifted == 0


async def test_the_watch_hears_of_every_phase() -> None:
    heard: list[tuple[str, str]] = []

    class Listening(Watch):
        def entered(self, trajectory_id: str, phase: str, instance_id: str = "") -> None:
            heard.append((phase, instance_id))

    await play(ToldService([END]), SUBMIT, watch=Listening())
    assert heard == [
        ("create", ""),
        ("generate", "i0"),
        ("step", "i0"),
        ("evaluate", "i0"),
        ("release", "i0"),
    ]


async def test_requests_carry_what_engines_and_scripts_go_by() -> None:
    seen = []

    class Noting(ScriptedPolicy):
        async def generate(self, request) -> Generation:
            seen.append(request)
            return await super().generate(request)

    policy = Noting({"t": [PROGRAM, SUBMIT]}, tiny_chat())
    await play(ToldService([observed("95"), END]), policy=policy, sampling={"temperature": 0.5, "top_k": 7})
    first, second = seen
    assert (first.key.trajectory_id, first.key.turn, second.key.turn) == ("3.2", 0, 1)
    assert second.token_ids[: len(first.token_ids)] == first.token_ids
    assert (first.sampling.temperature, first.sampling.top_k) == (0.5, 7)
    assert first.sampling.stop_ids == tiny_chat().stop_ids
    assert first.seed != second.seed
    assert first.max_tokens <= 512 - len(first.token_ids)


async def test_an_unknown_context_is_an_error_of_the_configuration() -> None:
    chat = tiny_chat()
    config = RolloutConfig()

    class Boundless:
        context_tokens = None

    async with ToldService([]).client() as client:
        with pytest.raises(ConfigError, match="max_context_tokens"):
            EpisodePlayer(client, ScriptedPolicy({}, chat), Boundless(), config, ServiceConfig())  # type: ignore[arg-type]
