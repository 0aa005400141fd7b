"""``sandbox-trainer demonstrations``: turn plain questions and answers into tasks and demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output_files import check_apart
from .terminal import explained, results


def demonstrations(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS.jsonl",
            help='Lines of {"question": ..., "answer": ...} with, optionally, "program" (Python that prints '
            'the answer), "reasoning", "id", "difficulty" and "category".',
        ),
    ],
    tasks: Annotated[
        Path | None,
        typer.Option(
            "--tasks", metavar="FILE", help="The task file for the service; default: beside the source."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The demonstrations; default: beside the source."
        ),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Write demonstrations with tool calls instead of text.")
    ] = False,
    bare: Annotated[bool, typer.Option("--bare", help="Give the agent the question only.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files beside the source that have other content.")
    ] = False,
) -> None:
    """Make tasks and warm-start demonstrations from plain questions with answers.

    A question with a program becomes a conversation in which the program is run in the sandbox, its real
    output is observed, and the answer is submitted. For environments with reference solutions, use
    `sandbox-service envs references` instead.

    Examples:

        sandbox-trainer demonstrations questions.jsonl

        sandbox-service serve 'environments.code.task_files=["questions.tasks.jsonl"]'

        sandbox-trainer sft RUN.toml warm_start.demonstrations=questions.demonstrations.jsonl
    """
    from trainer.sft.questions import convert_questions

    task_file = tasks if tasks is not None else questions.with_suffix(".tasks.jsonl")
    shown = output if output is not None else questions.with_suffix(".demonstrations.jsonl")
    named = (tasks, output)
    kept = () if force else tuple(file for file in (task_file, shown) if file not in named)
    with explained():
        check_apart(task_file, (questions, shown))
        check_apart(shown, (questions,))
        made = convert_questions(questions, task_file, shown, native=native, bare=bare, kept=kept)
    console = results()
    console.print(
        f"{made.tasks:,} task{'' if made.tasks == 1 else 's'}, {made.with_program:,} with a program",
        markup=False,
    )
    console.print(f"tasks: {task_file} (split {made.split})", markup=False, soft_wrap=True)
    console.print(f"demonstrations: {shown}", markup=False, soft_wrap=True)
