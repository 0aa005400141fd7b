"""How episodes are played and collected."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, field_validator

from sandbox_settings import Branch, Count, NonNegative, Positive, Seconds, Share

__all__ = [
    "FailFast",
    "MinimumGroup",
    "Retry",
    "RolloutConfig",
    "SamplingConfig",
    "ServiceConfig",
    "StrategyConfig",
]


_ADDRESS = frozenset({"server", "server.host", "server.port", "--host", "--port"})


class ServiceConfig(Branch):
    """The sandbox service that episodes are played in."""

    url: str | None = None
    """Its address; without one, a service is started for the run on this machine."""
    api_key_variable: str = "SANDBOX_API_KEY"
    """Environment variable that holds the key, where the service wants one."""
    start: tuple[str, ...] = ()
    """Settings of a service that is started here, such as ``sandbox.kind=process``, but for its address."""
    start_timeout_s: Seconds = 180.0
    in_flight: Positive = 256
    """Calls at a time."""
    creating: Positive = 64
    """Creates at a time."""
    create_timeout_s: Seconds = 120.0
    step_timeout_s: Seconds = 60.0
    evaluate_timeout_s: Seconds = 120.0

    @field_validator("start")
    @classmethod
    def _leaves_the_address_alone(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if word.partition("=")[0].strip() in _ADDRESS:
                raise ValueError(
                    f"{word!r} moves the service away from the address that the run gives it: leave it out, "
                    "or start a service yourself and name it with service.url"
                )
        return words


class SamplingConfig(Branch):
    """How turns are drawn."""

    temperature: NonNegative = 1.0
    """The policy that is trained is the one at this temperature; above 0, but in an evaluation."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Below 1 it is warned of: the learner computes probabilities among all words."""
    top_k: Positive | None = None
    """Set, it is warned of as well."""
    max_turn_tokens: Positive = 512
    """Tokens of one assistant turn."""


class FailFast(Branch):
    """An episode that fails makes its group fail: the task is put back, nothing is trained."""

    kind: Literal["fail_fast"] = "fail_fast"


class Retry(Branch):
    """An episode that fails through no fault of the policy is played again in a fresh instance."""

    kind: Literal["retry"] = "retry"
    attempts: Positive = 3
    """Instances an episode, the first one included."""
    backoff_s: NonNegative = 0.5
    """Doubles with each retry, unless the service says how long to wait."""


class MinimumGroup(Branch):
    """Retries, then goes on with those that have a verdict, if there are enough of them."""

    kind: Literal["minimum_group"] = "minimum_group"
    attempts: Positive = 2
    backoff_s: NonNegative = 0.5
    share: Share = 0.5
    """Least share of the group that must have a verdict."""


StrategyConfig: TypeAlias = Annotated[FailFast | Retry | MinimumGroup, Field(discriminator="kind")]


class RolloutConfig(Branch):
    """P tasks by G episodes a step, and how far sampling may run ahead of training."""

    groups: Positive = 16
    """P: groups a step."""
    group_size: Positive = 8
    """G: episodes a group."""
    max_staleness: Count = 0
    """Updates that the weights may have gone on since an episode began; 0 samples and trains by turns."""
    oversample: Annotated[float, Field(ge=1)] = 1.0
    """Groups that may begin for a step, as a multiple of those that it takes: spare ones stand in for flat
    ones, and what is left over when they would be too old is dropped."""
    workers: Count = 0
    """Processes that play episodes, beside the one that keeps journal and batches; 0: that one plays them."""
    concurrency: Positive = 128
    """Episodes at a time, at most; the pool's free room lowers it."""
    sampling: SamplingConfig = SamplingConfig()
    max_turns: Positive = 16
    """Assistant turns an episode, where the environment allows more."""
    max_context_tokens: Positive | None = None
    """Tokens of a conversation; the model's context when missing."""
    when_full: Literal["stop", "forget"] = "stop"
    """A full context ends the episode, or the oldest exchanges are dropped and a new segment begins."""
    cut_turns: Literal["act", "stop"] = "act"
    """A turn that hit its token limit is sent as it is, or ends the episode."""
    drift_check: Positive = 8
    """One turn in so many is checked for drift, and each of the first groups'; 1 checks all."""
    strategy: StrategyConfig = Retry()
    params: dict[str, JsonValue] = {}
    """Parameters of each create, such as the environment's own shaping."""
    evaluation_params: dict[str, JsonValue] = {}
    """Parameters of each evaluate, such as ``{"sparse": true}``."""
    fresh: bool = False
    """Ask for a sandbox that no episode has used before."""
    in_flight: Literal["keep", "abort"] = "keep"
    """At a weight update, turns under way go on in the engine, or come back and are continued from their
    tokens with a new prefill. Either way each token knows its weights."""
    generate_timeout_s: Seconds = 240.0
    """Of one turn; the episode ends with what was sampled of it, and is graded. Below the service's
    ``lease.idle_timeout_s``, which ends an instance that nobody asks."""
    episode_timeout_s: Seconds = 900.0
    """Wall clock of one attempt from its first observation on; then it ends and is graded."""
    stall_report_s: Seconds = 60.0
    """Without any progress for so long, what is being waited for is logged."""
    stall_timeout_s: Seconds = 900.0
    """Without any progress for so long, the run ends with that report."""
