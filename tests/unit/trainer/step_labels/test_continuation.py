"""The value of a step is the share of continuations that solve the task; a failure is no value."""

import json
from random import Random

import httpx
import pytest

from sandbox_client import AsyncSandboxClient, RetryPolicy
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode
from tests.fakes.echo_service import EchoService, RefusedError
from tests.fakes.recorded import message
from trainer.config.step_labels import ContinuationConfig
from trainer.errors import EngineError, LabelFailed
from trainer.recorded.types import RecordedEpisode, RowOrigin
from trainer.step_labels.continuation import ContinuationLabeller

STEPS = 3


class HalfheartedPolicy:
    """Gives up with a chance of one in two at each turn; the same seed gives the same turn."""

    def __init__(self, failing: int = 0) -> None:
        self.asked: list[int] = []
        self.failing = failing

    async def write_turn(self, messages, tools, seed):
        self.asked.append(seed)
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
