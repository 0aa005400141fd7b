"""Everything that reads a model's text takes time in proportion to its length, whatever the text is.

One table has all parsers. Each reads texts made of a beginning, a repeated middle and an end; a text sixteen
times as long may cost a little more than sixteen times the CPU time, and is stopped when it costs more.
"""

from __future__ import annotations

import gc
import itertools
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_service.environments.appworld.box.actions import read_actions
from sandbox_service.environments.babyai.box.words import plain as babyai_plain
from sandbox_service.environments.bike_rental.box.grading import is_told
from sandbox_service.environments.bike_rental.box.scripted_user import ScriptedUser
from sandbox_service.environments.code.box import answers
from sandbox_service.environments.openspiel.box.moves import label_of
from sandbox_service.environments.reasoning_gym.box.answers import tagged_answer
from sandbox_service.environments.reasoning_gym.box.arithmetic import ArithmeticTextError, read_arithmetic
from sandbox_service.environments.reasoning_gym.box.judges import JUDGES
from sandbox_service.environments.search_qa.box.actions import parse_actions as search_actions
from sandbox_service.environments.search_qa.box.scoring import exact_match, f1
from sandbox_service.environments.search_qa.box.search import load_index
from sandbox_service.environments.shared.box.actions import parse_actions
from sandbox_service.environments.shared.box.answer_world import answer_in
from sandbox_service.environments.shared.box.calls import native_calls, parse_calls
from sandbox_service.environments.shared.box.game_actions import parse_moves
from sandbox_service.environments.textworld.box import words as textworld
from sandbox_service.runner.worker.cpu_budget import OverBudget, cpu_budget
from trainer.chat.thoughts import divide, marked
from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.errors import JudgeFailed
from trainer.outcomes.judge_prompt import score_in

if TYPE_CHECKING:
    from collections.abc import Callable

    Parser = Callable[[str], object]


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def judged(text: str) -> float | None:
    try:
        return score_in(text, 0.0, 10.0)
    except JudgeFailed:
        return None


SCRIPT = {"facts": [], "wishes": [{"say": "Cancel it.", "values": ["B-1"], "facts": []}]}


SOLUTION = {"numbers": [1], "target": 1, "valid_answers": ["Q"]}
FRACTION = {"simplified_numerator": 3, "simplified_denominator": 7}
ENTRY = {"answer": "1", "metadata": {**SOLUTION, **FRACTION}}
"""An entry that has all that any judge of reasoning_gym reads."""


def arithmetic(text: str) -> object:
    try:
        return read_arithmetic(text)
    except ArithmeticTextError:
        return None


PARSERS: dict[str, Parser] = {
    "calls": lambda text: parse_calls(said(text)),
    "native arguments": lambda text: native_calls([{"function": {"name": text, "arguments": text}}]),
    "game moves": lambda text: parse_moves(said(text)),
    "code actions": lambda text: parse_actions(said(text)),
    "appworld cells": lambda text: read_actions(said(text), simple=False),
    "appworld plain cells": lambda text: read_actions(said(text), simple=True),
    "babyai words": babyai_plain,
    "reasoning_gym answers": tagged_answer,
    "reasoning_gym arithmetic": arithmetic,
    "reasoning_gym judges": lambda text: [judge(ENTRY, text) for judge in JUDGES.values()],
    "search_qa actions": lambda text: search_actions(said(text)),
    "search_qa scores": lambda text: (exact_match(text, "the answer"), f1(text, "the answer")),
    "search_qa queries": lambda text: load_index().find(text, 3),
    "nim moves": lambda text: label_of("nim", text),
    "breakthrough moves": lambda text: label_of("breakthrough", text),
    "poker moves": lambda text: label_of("kuhn_poker", text),
    "textworld words": lambda text: textworld.withheld(textworld.plain(text)),
    "scripted customers": ScriptedUser(SCRIPT).reply,
    "facts told": lambda text: is_told({"kind": "amount", "value": "1.00"}, [text]),
    "exact answers": lambda text: answers.exact(text, ["a"], ignore_case=True),
    "numbers": lambda text: answers.number_in(text),
    "choices": lambda text: answers.picked(text),
    "words in common": lambda text: answers.token_f1(text, ["the answer"]),
    "words in order": lambda text: answers.rouge_l(text, ["the answer"] * 4),
    "tagged answers": answer_in,
    "grades of a judge": judged,
    "thoughts": lambda text: divide(marked(text)),
    **{f"tool format {name}": each.parse for name, each in TOOL_FORMATS.items()},
}
KIMI = "<|tool_calls_section_begin|>"
KNOWN = [
    ("", "Action" + " " * 64, ""),
    ("Action", " ", ""),
    ("Action 1", "1", " "),
    ("", "<tool_call>x</tool_call>", ""),
    ("", "<tool_call>", ""),
    ("", '<tool_call>{"name": "f", "arguments": {}}</tool_call>', ""),
    ("<tool_call>", " ", ""),
    ("```", " ", "`"),
    ("", "```\n", ""),
    ("", "```python\n", ""),
    ("", "`", ""),
    ("", "<think>", ""),
    ("", "<answer>", ""),
    ("", "</answer>", ""),
    ("", "<search></answer>", ""),
    ("", "(", ""),
    ("1", "+1", ""),
    ("", "-", "1"),
    ("1", " ", "/"),
    ("3/7", " ", "x"),
    ("1 days,", " ", "x"),
    ("1", ",111", "x"),
    ("", "</think>", ""),
    ("score", "*", "1"),
    ("score: ", "1", "."),
    ("", '{"name": "f", "parameters": {}};', ""),
    ("[TOOL_CALLS]f[CALL_ID]", " ", "["),
    ("", "[TOOL_CALLS]f[ARGS]{}", ""),
    ("[", "f(),", "]"),
    ("[f(a=", "[", ""),
    ("<tool_call><function=f><parameter=x>", "</parameter>", ""),
    ("<tool_call><function=f><parameter=x>", "</parameter> ", ""),
    ("", "<function=f></function>", ""),
    ("", "<tool_call><function=", ""),
    ("<tool_call>f<arg_key>x</arg_key><arg_value>", "</arg_value>\n", ""),
    ("", "<tool_call>f</tool_call>", ""),
    ("<minimax:tool_call>", '<invoke name="f"></invoke>', ""),
    ("", '<minimax:tool_call><invoke name="', ""),
    (
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "",
    ),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", ""),
    ("", "<|start|>assistant<|message|>", ""),
    ("", "<|channel|>analysis<|message|>a<|end|><|start|>", ""),
    ("", "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>", ""),
    ("", "<|tool_call>call:f{}<tool_call|>", ""),
    ("<|tool_call>call:f{x:", "[", ""),
    ("<|tool_call>call:f{x:[", "1,", ""),
    ("<|tool_call>call:f{x:[", '<|"|>', ""),
    ("", "<|tool_call_start|>[f()]", "<|tool_call_end|>"),
    ("", "[f()]\n", ""),
    ("<|START_ACTION|>", "[{", ""),
    ("", "<|START_RESPONSE|>", ""),
    ("a", "\u0315\u0300", ""),
    ("a", "\u0301", ""),
    ("A", " ", "B"),
    ("A", " and ", "B"),
    ("", "a b ", ""),
    ("", "1,111", ""),
    ("x", "y", "="),
    ("\\boxed{", "}", "x"),
]
CALL = '{"name": "f", "arguments": {}}'
WORDS = r"""
a A e 1 and then act Action Action: a=1 f( , ; : . = ( [ ] { } " \ - $ \boxed{ ` ```
<think> </think> <tool_call> </tool_call>
[TOOL_CALLS] [ARGS] [CALL_ID] <|python_tag|> <|python_end|>
<function= <parameter= </parameter> </function> <arg_key> </arg_key> <arg_value> </arg_value> > f
<minimax:tool_call> <invoke name="f"> </invoke> <parameter name="x"> <|tool_call>call:f{ <tool_call|> <|"|>
<|start|> <|message|> <|channel|>analysis to=functions.f <|end|> <|tool_call_start|> <|tool_call_end|>
<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <|tool_calls_section_begin|>
<|tool_call|> <TOOLCALL>
"""
FRAGMENTS = [*WORDS.split(), *(" ", "\t", "\n", "\r\n", "```python\n", "the ", CALL, "\u0301", "\u0315")]
SHORT = 16_000
"""Characters of the shorter text."""
FACTOR = 16
ALLOWED = 3
"""Time that a text may cost beyond its proportion: caches, collections, a busy machine."""
TRIES = 5
LEAST_S = 0.016
"""A shorter time counts as this one: the clock may tick every four milliseconds."""


def cost_of(parser: Parser, text: str, limit_s: float, readings: int = 1) -> float:
    """CPU seconds of some readings; infinite beyond the limit."""
    # A collection walks through all that the tests have loaded, and belongs to no parser.
    gc.disable()
    started = time.process_time()
    try:
        with cpu_budget(limit_s):
            for _ in range(readings):
                parser(text)
    except OverBudget:
        return float("inf")
    finally:
        gc.enable()
    return time.process_time() - started


def growth_of(parser: Parser, beginning: str, middle: str, end: str) -> float:
    """Return by how much a text of sixteen times the length costs more than its proportion."""
    count = SHORT // len(middle) + 1
    short, long = (beginning + middle * (count * factor) + end for factor in (1, FACTOR))
    # As many characters as in the long text: a single reading may be shorter than a tick of the clock.
    before = max(LEAST_S, min(cost_of(parser, short, 8.0, FACTOR) for _ in range(2)))
    limit_s = min(ALLOWED * before, 60.0)
    # Other work on the core can inflate the CPU time of a reading; a quadratic parser fails all of them.
    growths = (cost_of(parser, long, limit_s) / before for _ in range(TRIES))
    return next((growth for growth in growths if growth <= ALLOWED), float("inf"))


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("text", KNOWN, ids=lambda text: ascii("".join(text)[:24]))
def test_a_text_that_was_slow_is_read_in_linear_time(name: str, text: tuple[str, str, str]) -> None:
    assert growth_of(PARSERS[name], *text) <= ALLOWED


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    beginning=st.sampled_from(["", *FRAGMENTS]),
    middle=st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=3).map("".join),
    end=st.sampled_from(["", *FRAGMENTS]),
)
def test_any_text_is_read_in_linear_time(name: str, beginning: str, middle: str, end: str) -> None:
    assert growth_of(PARSERS[name], beginning, middle, end) <= ALLOWED


def test_the_measure_finds_quadratic_time() -> None:
    def quadratic(text: str) -> int:
        return sum(text.count("a", start) for start in range(len(text)))

    assert growth_of(quadratic, "", "ab", "") > ALLOWED


def hunt(names: list[str]) -> None:
    """Try every pair of fragments, which takes hours of CPU: ``python -m tests.abuse.test_model_text``."""
    for name in names:
        for beginning, *middle in itertools.product(["", *FRAGMENTS], FRAGMENTS, ["", *FRAGMENTS]):
            growth = growth_of(PARSERS[name], beginning, "".join(middle), "`")
            if growth > ALLOWED:
                print(name, ascii((beginning, middle)), growth, flush=True)  # noqa: T201  # a tool's output


if __name__ == "__main__":
    import sys

    hunt(sys.argv[1:] or list(PARSERS))
