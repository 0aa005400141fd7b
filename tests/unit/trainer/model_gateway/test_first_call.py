import json

import pytest

from tests.harness.model_calls import LOOK, calling
from tests.harness.tiny_chat import tiny_chat
from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.engines.generation import Finish, Generation
from trainer.model_gateway.first_call import cut_after_first_call
from trainer.model_gateway.stop_texts import Cut
from trainer.types import VersionSpan

CLOSED_TOGETHER = ("mistral", "pythonic", "cohere", "granite", "lfm2", "minimax", "nemotron_v2", "phi4_mini")
"""Notations that close all calls of an answer together."""


def sampled(chat, message):
    text = chat.format.render(message)
    ids = tuple(chat.encode(text))
    logprobs = tuple(-float(place) for place in range(len(ids)))
    return Cut(Generation(ids, logprobs, Finish.STOP, (VersionSpan(0, len(ids), 3),)), text, None)


def first_of(chat, cut):
    return cut_after_first_call(chat, cut, chat.parse(cut.text, tools=[LOOK]), [LOOK], [])


@pytest.mark.parametrize("name", sorted(TOOL_FORMATS.keys() - {"text"} - set(CLOSED_TOGETHER)))
def test_the_tokens_after_the_first_call_are_dropped(name):
    chat = tiny_chat(tool_format=name)
    whole = sampled(chat, calling("look", "look", "look"))
    found = first_of(chat, whole)
    assert [call.function.name for call in found.message.tool_calls] == ["look"]
    assert found.dropped == 2
    kept = len(found.cut.generation.token_ids)
    assert kept < len(whole.generation.token_ids)
    assert found.cut.generation.token_ids == whole.generation.token_ids[:kept]
    assert found.cut.generation.logprobs == whole.generation.logprobs[:kept]
    assert found.cut.generation.versions == (VersionSpan(0, kept, 3),)
    assert found.cut.text == chat.decode(found.cut.generation.token_ids)


@pytest.mark.parametrize("name", CLOSED_TOGETHER)
def test_calls_that_are_closed_together_keep_their_tokens_and_the_first_is_shown(name):
    chat = tiny_chat(tool_format=name)
    whole = sampled(chat, calling("look", "look"))
    found = first_of(chat, whole)
    assert found.cut == whole
    assert (len(found.message.tool_calls), found.dropped) == (1, 1)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_the_closing_mark_of_the_first_call_is_kept(name):
    found = first_of(chat := tiny_chat(tool_format=name), sampled(chat, calling("look", "look")))
    assert found.cut.text.strip() == chat.format.render(calling("look"))


def test_nested_arguments_and_text_before_the_calls_are_kept():
    chat = tiny_chat(tool_format="hermes")
    message = calling("look", "look", arguments='{"of": {"a": [{"b": "}"}]}}')
    found = first_of(chat, sampled(chat, message.model_copy(update={"content": "I look: {}>"})))
    assert found.message.content == "I look: {}>"
    assert found.message.tool_calls[0].function.arguments == '{"of": {"a": [{"b": "}"}]}}'
    assert found.dropped == 1


def test_a_call_whose_arguments_are_before_its_name_is_cut_off_behind_it():
    chat = tiny_chat(tool_format="hermes")
    written = json.dumps({"arguments": {"of": "x" * 60}, "name": "look"})
    text = "\n".join(f"<tool_call>\n{written}\n</tool_call>" for _ in range(2))
    ids = tuple(chat.encode(text))
    generation = Generation(ids, (-1.0,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 3),))
    found = first_of(chat, Cut(generation, text, None))
    assert found.dropped == 1
    assert found.cut.text.strip() == f"<tool_call>\n{written}\n</tool_call>"


@pytest.mark.parametrize("message", [calling("look"), calling()], ids=["one", "none"])
def test_an_answer_with_one_call_at_most_stays_as_it_is(message):
    chat = tiny_chat(tool_format="hermes")
    whole = sampled(chat, message)
    found = first_of(chat, whole)
    assert (found.cut, found.dropped) == (whole, 0)


class CountedParses:
    """A chat that counts how often it parses a text."""

    def __init__(self, chat):
        self._chat = chat
        self.parses = 0

    def __getattr__(self, name):
        return getattr(self._chat, name)

    def parse(self, text, *args, **kwargs):
        self.parses += 1
        return self._chat.parse(text, *args, **kwargs)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_arguments_that_are_full_of_brackets_are_parsed_a_few_times(name):
    chat = CountedParses(tiny_chat(tool_format=name))
    page = "<p>{a}</p>" * 500
    whole = sampled(chat, calling("look", "look", arguments=json.dumps({"word": page})))
    found = first_of(chat, whole)
    assert [call.function.name for call in found.message.tool_calls] == ["look"]
    assert len(found.cut.generation.token_ids) < len(whole.generation.token_ids)
    assert chat.parses < 20
