"""Open the labeller that the settings name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_client import AsyncSandboxClient
from trainer.config.step_labels import ContinuationRule, JudgeRule, OutcomeRule
from trainer.outcomes.judge_opening import advised, judge_with_budget, rubric_of

from .continuation import ContinuationLabeller
from .judged import JudgeLabeller
from .outcome import OutcomeLabeller
from .served_policy import ServedPolicy

if TYPE_CHECKING:
    from trainer.config.step_labels import StepRule
    from trainer.outcomes.judge import Judge
    from trainer.recorded.types import RecordedEpisode

    from .labels import StepLabeller

_JUDGE = "rule.judge"


def with_rubric(rule: StepRule) -> StepRule:
    """Return the rule with the text of its rubric in place of a file, which may change before labels go on.

    Raises ConfigError.
    """
    if not isinstance(rule, JudgeRule):
        return rule
    judge = rule.judge.model_copy(update={"rubric": rubric_of(rule.judge, _JUDGE), "rubric_file": None})
    return rule.model_copy(update={"judge": judge})


@asynccontextmanager
async def opened_labeller(
    rule: StepRule, output: Path, episodes: Sequence[RecordedEpisode], labelling: str | None = None
) -> AsyncIterator[StepLabeller]:
    """Yield the labeller of a rule for these episodes, and close its connections.

    A judge's answers are kept beside the output unless its settings name a file, and its budget counts what
    was asked in this ``labelling``, or where that has no id, for this output; it is asked for one grade
    first. Raises ConfigError for a judge without package or rubric file, JudgeFailed for one that does not
    grade.
    """
    if isinstance(rule, OutcomeRule):
        yield OutcomeLabeller(rule, episodes)
    elif isinstance(rule, ContinuationRule):
        key = os.environ.get(rule.api_key_variable)
        async with AsyncSandboxClient(rule.service, key) as client:
            policy = ServedPolicy(rule.policy)
            try:
                yield ContinuationLabeller(client, policy, rule, rule.dimension)
            finally:
                await policy.close()
    else:
        judge = _judge(rule, output, labelling)
        try:
            labeller = JudgeLabeller(rule, rubric_of(rule.judge, _JUDGE), judge)
            with advised(rule.judge, _JUDGE):
                await labeller.try_judge()
            yield labeller
        finally:
            await judge.close()


def _judge(rule: JudgeRule, output: Path, labelling: str | None) -> Judge:
    file = output.with_name(f"{output.name}.judge.sqlite")
    return judge_with_budget(rule.judge, _JUDGE, file, labelling or str(output.absolute()))
