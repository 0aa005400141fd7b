"""A synthetic task: a wish, the conditions that must hold afterwards, and code that achieves them.

A scenario comes in variants, each of which is a task. Checks become AppWorld tests; a label says whether a
test passes when nothing was done, as AppWorld's own tests have it. The answer and the state of the task are
always checked, so that doing nothing never passes.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .authored import SCENARIO_FILES, read

Variant = dict[str, Any]
_NO_ANSWER = "no answer is given, as none was asked for"
_ANSWER = "the answer is right"
_DONE = "the task is reported as done"


@dataclass(frozen=True)
class Check:
    """One requirement: its text, and statements that fail when it does not hold.

    The statements see ``models``, ``expected`` (the variant) and ``test``; those of models that did not change
    pass when nothing was done.
    """

    requirement: str
    code: str
    passes_undone: bool = False


@dataclass(frozen=True)
class Scenario:
    """A family of tasks."""

    name: str
    difficulty: int
    apps: tuple[str, ...]
    instruction: str
    """With the variant's fields in braces."""
    variants: tuple[Variant, ...]
    solution: str
    """Cells for a notebook, divided by lines of dashes; ``$name`` stands for a field of the variant."""
    changes: tuple[str, ...] = ()
    """Models that may change."""
    checks: tuple[Check, ...] = ()

    def instruction_of(self, variant: Variant) -> str:
        """Return the instruction of one task."""
        return self.instruction.format(**variant)

    def cells(self, variant: Variant) -> list[str]:
        """Return the cells that solve one task."""
        text = textwrap.dedent(self.solution).strip()
        for name, value in variant.items():
            text = text.replace(f"${name}", repr(value))
        return [cell.strip() for cell in text.split("\n----\n")]


def read_scenarios() -> list[Scenario]:
    """Return all scenarios, in the order of their names."""
    rows = [row for path in SCENARIO_FILES for row in read(path)["scenario"]]
    return sorted((_scenario(**row) for row in rows), key=lambda scenario: scenario.name)


def _scenario(
    logins: list[str],
    solution: str,
    checks: Iterable[dict[str, Any]] = (),
    **row: Any,  # noqa: ANN401
) -> Scenario:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    return Scenario(
        **fields,
        solution=f"{_tokens(*logins)}\n{solution}",
        checks=tuple(Check(**check) for check in checks),
    )


def _tokens(*apps: str) -> str:
    """Return lines that log in to apps: ``<app>_token`` for each."""
    lines = [
        "passwords = {a['account_name']: a['password'] for a in apis.supervisor.show_account_passwords()}"
    ]
    lines.append("me = apis.supervisor.show_profile()")
    for app in apps:
        name = "me['phone_number']" if app == "phone" else "me['email']"
        login = f"apis.{app}.login(username={name}, password=passwords['{app}'])"
        lines.append(f"{app}_token = {login}['access_token']")
    return "\n".join(lines)


def _checks(scenario: Scenario, variant: Variant) -> list[Check]:
    asked = variant.get("answer") is not None
    given = "json.loads(task.answer)"
    return [
        Check(_DONE, 'test.case(task.status, "==", "success")'),
        Check(_ANSWER, f"test.answer({given}, ground_truth_answer)")
        if asked
        else Check(_NO_ANSWER, f'test.case({given}, "==", None)'),
        Check(
            f"nothing else is changed: {', '.join(scenario.changes) or 'nothing at all'}",
            f'test.case(models.changed_model_names() - set({list(scenario.changes)!r}), "==", set())',
            passes_undone=True,
        ),
        *scenario.checks,
    ]


def labels(scenario: Scenario, variant: Variant) -> list[dict[str, str]]:
    """Return the list of tests beside the evaluation."""
    return [
        {
            "requirement": check.requirement,
            "label": "no_op_pass" if check.passes_undone else "no_op_fail",
        }
        for check in _checks(scenario, variant)
    ]


def evaluation_source(scenario: Scenario, variant: Variant) -> str:
    """Return a program of the form with which AppWorld evaluates tasks."""
    lines = [
        "import json",
        "",
        "",
        "def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):",
        f"    expected = json.loads({json.dumps(variant)!r})",
        "    task = models.end.supervisor.Task.all()[0]",
    ]
    for check in _checks(scenario, variant):
        lines.append(f"    with test({check.requirement!r}):")
        lines += ["        " + line for line in textwrap.dedent(check.code).strip().splitlines()]
    return "\n".join(lines) + "\n"
