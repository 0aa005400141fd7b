"""Sampled tokens are trained once, in any order of agents' calls and engines' answers."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.model_calls import KEY, call, limits, trained_logprobs, user
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Sampling
from trainer.errors import EngineError
from trainer.model_gateway.calls import CallError
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.retries import RetryMarker
from trainer.model_gateway.session import Session

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "answer", "answer", "fail", "retry", "leave"]), st.integers(0, 9)
    ),
    max_size=30,
)


@dataclass
class HeldPolicy(AgentPolicy):
    """Answers a call when it is told to."""

    held: list = field(default_factory=list)

    async def generate(self, request):
        word = asyncio.get_running_loop().create_future()
        self.held.append(word)
        await word
        return await super().generate(request)


class Agent:
    """Asks, in several branches at a time, and repeats its calls."""

    def __init__(self, opened, policy):
        self.opened, self.policy = opened, policy
        self.asked, self.histories = [], [(user("Begin."),)]

    def ask(self, number):
        history = self.histories[number % len(self.histories)]
        self.asked.append((history, self._start(history, RetryMarker(str(history).encode()))))

    def retry(self, number):
        if self.asked:
            history, _ = self.asked[number % len(self.asked)]
            self.asked.append((history, self._start(history, RetryMarker(str(history).encode(), attempt=1))))

    def leave(self, number):
        if self.asked:
            self.asked[number % len(self.asked)][1].cancel()

    def answer(self, number):
        self._release(number, lambda word: word.set_result(None))

    def fail(self, number):
        self._release(number, lambda word: word.set_exception(EngineError("lost")))

    def answer_all(self):
        while self.policy.held:
            self.answer(0)

    def _release(self, number, how):
        self.policy.held = [word for word in self.policy.held if not word.done()]
        if self.policy.held:
            how(self.policy.held.pop(number % len(self.policy.held)))

    def _start(self, history, marker):
        return asyncio.create_task(self._go_on(history, marker))

    async def _go_on(self, history, marker):
        with contextlib.suppress(CallError):
            reply = await self.opened.answer(call(*history), marker)
            self.histories.append((*history, reply.message, user("Go on.")))


async def played(actions, prompts, *, whole):
    """The policy and the recording of a session in which an agent does all this."""
    policy = HeldPolicy(tiny_chat(), ["<think>a</think>b", "b", "b c", "a"])
    opened = Session(KEY, policy, policy.chat, Sampling(), limits(), prompts=prompts)
    agent = Agent(opened, policy)
    for action, number in actions:
        getattr(agent, action)(number)
        for _ in range(6):
            await asyncio.sleep(0)
    if whole:
        while policy.held:
            agent.answer_all()
            for _ in range(6):
                await asyncio.sleep(0)
    recording = await opened.close()
    await asyncio.gather(*(task for _, task in agent.asked), return_exceptions=True)
    return policy, recording


@settings(max_examples=60, deadline=None)
@given(ACTIONS, st.sampled_from(PromptPolicy), st.booleans())
def test_tokens_recorded_are_tokens_sampled(actions, prompts, whole):
    policy, recording = asyncio.run(played(actions, prompts, whole=whole))
    sampled = [pair for each in policy.sampled for pair in zip(each.token_ids, each.logprobs, strict=True)]
    assert sorted(trained_logprobs(recording)) == sorted(sampled)
    answered = [each for each in recording.calls if not each.error]
    assert len(answered) == len(policy.sampled) == sum(len(each.turns) for each in recording.segments)
