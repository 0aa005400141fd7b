"""The settings that labels depend on, which stay as they are when a labelling is resumed."""

import pytest

from trainer.config.step_labels import StepLabelsConfig, settings_of_labels


def settings(rule: dict[str, object]) -> dict[str, object]:
    return settings_of_labels(StepLabelsConfig.model_validate({"rule": rule}).rule)


def judge(rule: dict[str, object] | None = None, **changes: object) -> dict[str, object]:
    return {"kind": "judge", "judge": {"model": "m", "rubric": "r", **changes}, **(rule or {})}


def continuation(policy: dict[str, object] | None = None, **changes: object) -> dict[str, object]:
    model = {"base_url": "http://a/v1", "model": "m", **(policy or {})}
    return {"kind": "continuation", "service": "http://s", "policy": model, **changes}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (judge(), judge(max_calls=1000, max_tokens=10**6, concurrency=2, timeout_s=9, attempts=9)),
        (judge(), judge(base_url="http://b/v1", api_key_variable="KEY", cache="answers.sqlite")),
        (continuation(), continuation(service="http://t", api_key_variable="KEY", timeout_s=9, attempts=9)),
        (
            continuation(),
            continuation(
                {"base_url": "http://b/v1", "api_key_variable": "KEY", "timeout_s": 9, "attempts": 9}
            ),
        ),
    ],
    ids=["judge-budget", "judge-address", "service", "policy"],
)
def test_budgets_deadlines_and_addresses_may_change(one: dict[str, object], other: dict[str, object]) -> None:
    assert settings(one) == settings(other)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (judge(), judge(max_answer_tokens=9), "rule.judge.max_answer_tokens"),
        (judge(), judge({"dimensions": ["progress"]}), "rule.dimensions"),
        (continuation(), continuation({"max_tokens": 9}), "rule.policy.max_tokens"),
        (continuation(), continuation(state="replay"), "rule.state"),
        ({"kind": "outcome"}, {"kind": "outcome", "discount": 0.5}, "rule.discount"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_labels_depend_on_is_compared(
    one: dict[str, object], other: dict[str, object], name: str
) -> None:
    before, after = settings(one), settings(other)
    assert [each for each in before if before[each] != after[each]] == [name]
