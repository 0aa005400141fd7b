"""Sessions of the model gateway over a fake policy, and what agents send to them."""

from collections.abc import Sequence

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from tests.fakes.agent_policy import AgentPolicy
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Sampling
from trainer.model_gateway.budget import SessionLimits
from trainer.model_gateway.calls import ModelCall
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.recording import Recording
from trainer.model_gateway.session import Session
from trainer.types import EpisodeKey, Segment, TaskRef

KEY = EpisodeKey("0.0", TaskRef("echo", "train", "t1"), 7)
LOOK = Tool(function=FunctionSchema(name="look", parameters={"type": "object"}))


def limits(**changed) -> SessionLimits:
    return SessionLimits(**({"turns": 100, "context_tokens": 4000, "turn_tokens": 200} | changed))


def session(*lines, chat=None, prompts="splice", clock=None, checks=lambda _: True, **limited):
    """A session and the policy that answers it, which says the given lines."""
    chat = chat or tiny_chat(tools="prompt", tool_format="hermes")
    policy = AgentPolicy(chat, list(lines) or ["Yes."])
    more = {} if clock is None else {"clock": clock}
    opened = Session(
        KEY, policy, chat, Sampling(), limits(**limited), prompts=PromptPolicy(prompts), checks=checks, **more
    )
    return opened, policy


def user(text: str) -> Message:
    return Message(role="user", content=text)


def system(text: str) -> Message:
    return Message(role="system", content=text)


def assistant(text: str) -> Message:
    return Message(role="assistant", content=text)


def calling(*names: str, arguments: str = '{"word": "a"}') -> Message:
    """Return the model's message that calls tools."""
    calls = tuple(ToolCall(function=FunctionCall(name=name, arguments=arguments)) for name in names)
    return Message(role="assistant", content="", tool_calls=calls)


def result(call: ToolCall, text: str = "found") -> Message:
    return Message(role="tool", tool_call_id=call.id, content=text)


def call(*messages: Message, tools: Sequence[Tool] = (), **fields) -> ModelCall:
    return ModelCall(model="policy", messages=messages, tools=tuple(tools), **fields)


def trained(segments: Sequence[Segment]) -> list[tuple[int, ...]]:
    """The trained tokens of each sequence."""
    return [
        tuple(token for token, kept in zip(each.token_ids, each.loss_mask, strict=True) if kept)
        for each in segments
    ]


def trained_tokens(recording: Recording) -> list[int]:
    """All trained tokens of a recording, sorted."""
    return sorted(token for tokens in trained(recording.segments) for token in tokens)


def trained_logprobs(recording: Recording) -> list[tuple[int, float]]:
    """All trained tokens of a recording with their log-probabilities."""
    return [
        (token, logprob)
        for each in recording.segments
        for token, logprob, kept in zip(each.token_ids, each.logprobs, each.loss_mask, strict=True)
        if kept
    ]


def sampled_tokens(policy: AgentPolicy) -> list[int]:
    """All tokens that a policy sampled, sorted."""
    return sorted(token for each in policy.sampled for token in each.token_ids)
