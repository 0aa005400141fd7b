"""Open the labeller that the settings name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_client import AsyncSandboxClient
from trainer.config.step_labels import ContinuationRule, OutcomeRule
from trainer.outcomes.judge import Judge
from trainer.outcomes.judge_store import JudgeStore
from trainer.outcomes.openai_endpoint import OpenaiEndpoint
from trainer.outcomes.opening import rubric_of

from .continuation import ContinuationLabeller
from .judged import JudgeLabeller
from .outcome import OutcomeLabeller
from .served_policy import ServedPolicy

if TYPE_CHECKING:
    from trainer.config.step_labels import JudgeRule, StepRule

    from .labels import StepLabeller


@asynccontextmanager
async def opened_labeller(rule: StepRule, output: Path) -> AsyncIterator[StepLabeller]:
    """Yield the labeller of a rule, and close its connections.

    A judge's answers are kept beside the output unless its settings name a file, and its budget counts what
    was asked for this output. Raises ConfigError for a judge without package or rubric file.
    """
    if isinstance(rule, OutcomeRule):
        yield OutcomeLabeller(rule)
    elif isinstance(rule, ContinuationRule):
        key = os.environ.get(rule.api_key_variable)
        async with AsyncSandboxClient(rule.service, key) as client:
            policy = ServedPolicy(rule.policy)
            try:
                yield ContinuationLabeller(client, policy, rule, rule.dimension)
            finally:
                await policy.close()
    else:
        judge = _judge(rule, output)
        try:
            yield JudgeLabeller(rule, rubric_of(rule.judge), judge)
        finally:
            await judge.close()


def _judge(rule: JudgeRule, output: Path) -> Judge:
    kept = rule.judge.cache
    file = Path(kept) if kept is not None else output.with_name(f"{output.name}.judge.sqlite")
    store = JudgeStore(file, str(output.absolute()))
    return Judge(rule.judge, rubric_of(rule.judge), OpenaiEndpoint(rule.judge, "rule.judge"), store)
