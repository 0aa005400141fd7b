"""The value of a step is the share of continuations that solve the task; a failure is no value."""

import json
from dataclasses import replace
from random import Random

import httpx
import pytest

from sandbox_client import AsyncSandboxClient, RetryPolicy
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode, Problem
from tests.fakes.echo_service import EchoService, RefusedError
from tests.fakes.recorded import message
from trainer.config.step_labels import ContinuationConfig
from trainer.errors import EngineError, LabelFailed
from trainer.recorded.types import RecordedEpisode, RowOrigin
from trainer.step_labels.continuation import ContinuationLabeller, continuation_turn_seed

STEPS = 3


class HalfheartedPolicy:
    """Gives up with a chance of one in two at each turn; the same seed gives the same turn."""

    def __init__(self, failing: int = 0) -> None:
        self.asked: list[int] = []
        self.shown: list[list[tuple[str, str]]] = []
        self.offered = None
        self.failing = failing

    async def write_turn(self, messages, tools, seed):
        self.asked.append(seed)
        self.shown.append([(each.role, each.content) for each in messages])
        self.offered = tools
        if self.failing:
            self.failing -= 1
            raise EngineError("no answer")
        return None if Random(seed).random() < 0.5 else Message(role="assistant", content=f"{seed}")


class FailingService(EchoService):
    """Refuses steps that say so, as a box does that has died."""

    def _step(self, body):
        if body["message"]["content"].startswith("lose"):
            raise RefusedError(ErrorCode.INSTANCE_LOST)
        return super()._step(body)


class RefusingService(EchoService):
    """Refuses requests of one kind, those of the given numbers, as a service without storage does.

    A request that is sent again under its key is the same one.
    """

    def __init__(self, verb: str, *refused: int) -> None:
        super().__init__(STEPS)
        self.verb = verb
        self.refused = refused
        self.keys: list[str] = []

    def __call__(self, request):
        verb = request.url.path.rpartition("/")[2]
        key = json.loads(request.content).get("idempotency_key") if verb == self.verb else None
        if key is not None and key not in self.keys:
            self.keys.append(key)
        if key is not None and self.keys.index(key) in self.refused:
            self.calls.append(verb)
            problem = Problem.of(ErrorCode.STORAGE_FULL, "no storage is left")
            return httpx.Response(problem.status, json=problem.model_dump(mode="json"))
        return super().__call__(request)


class SessionsService(EchoService):
    """Begins another session with the first step."""

    def _step(self, body):
        result = super()._step(body)
        if result["step_index"]:
            return result
        observation = {"messages": [{"role": "system", "content": "Another session."}]}
        return {**result, "observation": observation, "info": {"new_session": True}}


class ShowingService(EchoService):
    """Opens with an example of a turn."""

    def _create(self, body):
        said = [("user", "Say one."), ("assistant", "one"), ("user", "Say something.")]
        messages = [{"role": role, "content": text} for role, text in said]
        return {**super()._create(body), "observation": {"messages": messages}}


def recorded(*said: str, answers: tuple[str, ...] = ()) -> RecordedEpisode:
    messages = [message("user", "Say something.")]
    for place, text in enumerate(said):
        messages += [message("assistant", text), message("user", dict(enumerate(answers)).get(place, text))]
    return RecordedEpisode(tuple(messages), RowOrigin("rows.jsonl", 1), "e", "echo", task_id="t", seed=4)


async def labels_of(episode, service=None, policy=None, **settings):
    service = service or EchoService(STEPS)
    transport = httpx.MockTransport(service)
    async with AsyncSandboxClient(
        "http://service", transport=transport, retry=RetryPolicy(attempts=1)
    ) as client:
        config = ContinuationConfig(**{"continuations": 16, **settings})
        labeller = ContinuationLabeller(client, policy or HalfheartedPolicy(), config)
        found = await labeller.label_steps(episode)
    assert service.live == {}, "all instances are released"
    return found


async def test_values_rise_towards_the_end_of_an_episode_that_is_solved() -> None:
    first, second, last = (await labels_of(recorded("a", "b", "c"), continuations=64)).labels["correctness"]
    assert 0 < first < second < last == 1


async def test_replayed_states_give_the_same_labels_for_more_steps() -> None:
    forked, replayed = EchoService(STEPS), EchoService(STEPS)
    one = await labels_of(recorded("a", "b", "c"), forked)
    other = await labels_of(recorded("a", "b", "c"), replayed, state="replay")
    assert one == other
    assert "fork_instance" not in replayed.calls
    assert replayed.calls.count("step") > forked.calls.count("step")


async def test_any_continuation_that_solves_the_task_is_enough() -> None:
    found = await labels_of(recorded("a", "b"), value="any")
    assert found.labels["correctness"] == (1.0, 1.0)


async def test_a_score_may_be_what_counts_as_solved() -> None:
    found = await labels_of(recorded("a", "b"), solved_from=0.3)
    assert found.labels["correctness"] == (1.0, 1.0)


async def test_no_turns_are_played_beyond_the_limit() -> None:
    policy = HalfheartedPolicy()
    found = await labels_of(recorded("a", "b"), policy=policy, max_turns=2)
    assert found.labels["correctness"][1] == 0.0


async def test_a_continuation_that_fails_is_tried_again() -> None:
    clean = await labels_of(recorded("a", "b"))
    assert await labels_of(recorded("a", "b"), policy=HalfheartedPolicy(failing=1)) == clean


@pytest.mark.parametrize("state", ["fork", "replay"])
async def test_a_step_whose_continuations_fail_has_no_label(state: str) -> None:
    found = await labels_of(
        recorded("a", "b"), policy=HalfheartedPolicy(failing=10**6), state=state, attempts=1
    )
    assert found.labels["correctness"] == (None, None)
    assert found.failures == {"engine": 2}


async def test_an_episode_whose_box_dies_has_no_labels() -> None:
    with pytest.raises(LabelFailed) as raised:
        await labels_of(recorded("a", "lose"), FailingService(STEPS))
    assert raised.value.failure_class == "sandbox"


@pytest.mark.parametrize(
    ("episode", "reason"),
    [
        (recorded("a", "b", answers=("A",)), "the answer to turn 0 is 'a', and was 'A'"),
        (recorded("a", "b", "c", "d"), "ended the episode before turn 3"),
    ],
)
async def test_an_episode_that_does_not_repeat_has_no_labels(episode, reason: str) -> None:
    with pytest.raises(LabelFailed, match=reason) as raised:
        await labels_of(episode)
    assert raised.value.failure_class == "replay"


@pytest.mark.parametrize("verb", ["fork_instance", "evaluate"])
async def test_a_refused_request_for_one_step_is_made_again(verb: str) -> None:
    clean = await labels_of(recorded("a", "b", "c"), continuations=2)
    last = 1 if verb == "fork_instance" else 4
    assert await labels_of(recorded("a", "b", "c"), RefusingService(verb, last), continuations=2) == clean


@pytest.mark.parametrize(
    ("verb", "refused", "place"), [("fork_instance", (1, 2), 1), ("evaluate", (4, 5), 2)]
)
async def test_a_step_without_copies_or_grade_has_no_label_and_the_others_have(
    verb: str, refused: tuple[int, ...], place: int
) -> None:
    service = RefusingService(verb, *refused)
    found = await labels_of(recorded("a", "b", "c"), service, continuations=2)
    labels = found.labels["correctness"]
    assert [number for number, label in enumerate(labels) if label is None] == [place]
    assert found.failures == {"sandbox": 1}


async def test_many_continuations_do_not_need_as_many_places_at_a_time() -> None:
    most = 0

    class Counting(EchoService):
        def _fork(self, body):
            nonlocal most
            forked = super()._fork(body)
            most = max(most, len(self.live))
            return forked

    await labels_of(recorded("a"), Counting(STEPS), continuations=64)
    assert most == 9


async def test_the_policy_is_shown_an_answer_that_the_recording_leaves_out() -> None:
    whole = recorded("a", "b")
    policy = HalfheartedPolicy()
    await labels_of(replace(whole, messages=whole.messages[:-1]), policy=policy, continuations=1)
    assert policy.shown[-1] == [(each.role, each.content) for each in whole.messages]


async def test_the_policy_is_shown_the_session_that_a_repeated_step_began() -> None:
    episode = recorded("a", "b")
    answered = message("system", "Another session.")
    episode = replace(episode, messages=(*episode.messages[:2], answered, *episode.messages[3:]))
    policy = HalfheartedPolicy()
    await labels_of(episode, SessionsService(STEPS), policy, continuations=1)
    assert policy.shown[0] == [("system", "Another session.")]
    assert policy.shown[-1] == [("system", "Another session."), ("assistant", "b"), ("user", "b")]


async def test_the_policy_is_offered_no_tools_that_a_repeated_step_took_away() -> None:
    class Disarming(EchoService):
        def _create(self, body):
            return {**super()._create(body), "tools": [{"type": "function", "function": {"name": "act"}}]}

        def _step(self, body):
            return {**super()._step(body), "info": {"tools": []}}

    policy = HalfheartedPolicy()
    await labels_of(recorded("a"), Disarming(STEPS), policy, continuations=1)
    assert policy.offered == ()


@pytest.mark.parametrize("state", ["fork", "replay"])
async def test_turns_that_the_environment_shows_as_examples_are_not_repeated(state: str) -> None:
    plain = recorded("a", "b")
    example = (message("user", "Say one."), message("assistant", "one"))
    shown = replace(plain, messages=(*example, *plain.messages), skipped=frozenset({1}))
    found = await labels_of(shown, ShowingService(STEPS), state=state)
    assert found.labels["correctness"] == (None, *(await labels_of(plain)).labels["correctness"])
    assert (found.no_steps, found.failures) == ({0}, {})


async def test_an_opening_with_an_example_that_was_not_recorded_is_not_repeated() -> None:
    with pytest.raises(LabelFailed, match="the opening is 'Say one"):
        await labels_of(recorded("a"), ShowingService(STEPS))


async def test_the_instance_has_the_recorded_seed() -> None:
    seeds = []

    class Watched(EchoService):
        def __call__(self, request):
            body = json.loads(request.content)
            if "environment" in body:
                seeds.append(body.get("seed"))
            return super().__call__(request)

    await labels_of(recorded("a"), Watched(STEPS))
    assert seeds == [4]


@pytest.mark.parametrize(("seed", "step", "turn_seed"), [(0, 0, 0), (5, 2, 2000011), (2**31 - 1, 1, 1000002)])
def test_turns_of_a_continuation_are_a_stride_apart(seed, step, turn_seed) -> None:
    """The values stay as they are, so that labels are repeated."""
    assert continuation_turn_seed(seed, step) == turn_seed


async def test_steps_of_a_later_session_are_labelled_behind_those_of_the_earlier_ones() -> None:
    first = (message("user", "Say something."), message("assistant", "a"))
    second = (message("system", "Another session."), *recorded("b", "c").messages[1:])
    whole = replace(recorded("a"), messages=(*first, *second))
    values = (await labels_of(whole, SessionsService(STEPS))).labels["correctness"]
    later = replace(whole, messages=second, earlier=first)
    found = await labels_of(later, SessionsService(STEPS))
    assert found.labels["correctness"] == values[1:]
    assert not found.no_steps


async def test_turns_before_a_change_of_tools_are_labelled_in_the_record_of_the_earlier_part_alone() -> None:
    first, both = recorded("a"), recorded("a", "b")
    later = replace(both, part=1, repeated_turns=1, skipped=frozenset({1}))
    found = [await labels_of(each, EchoService(STEPS)) for each in (first, later, both)]
    earlier, labels, all_labels = (each.labels["correctness"] for each in found)
    assert (*earlier, *labels) == (all_labels[0], None, all_labels[1])
    assert [each.no_steps for each in found[:2]] == [frozenset(), {0}]
