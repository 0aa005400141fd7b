import pytest

from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation
from trainer.model_gateway.stop_texts import Cut, cut_at
from trainer.types import VersionSpan


@pytest.fixture(scope="module")
def chat():
    return tiny_chat()


def sampled(chat, text, *, ended=True):
    ids = tuple(chat.turn(text) if ended else chat.encode(text))
    middle = len(ids) // 2
    return Generation(
        ids,
        tuple(-float(place) for place in range(len(ids))),
        Finish.STOP if ended else Finish.LENGTH,
        (VersionSpan(0, middle, 3), VersionSpan(middle, len(ids), 4)),
    )


def test_without_a_stop_text_all_is_kept(chat):
    generation = sampled(chat, "Thought: look. Action: look")
    for stops in ([], ["Observation:"]):
        whole = Cut(generation, "Thought: look. Action: look", None)
        assert cut_at(generation, stops, chat.said) == whole


@pytest.mark.parametrize("ended", [True, False])
def test_the_tokens_behind_the_first_stop_text_are_dropped(chat, ended):
    generation = sampled(chat, "Action: look\nObservation: it is here. Observation: again", ended=ended)
    found = cut_at(generation, ["Final", "Observation:"], chat.said)
    assert (found.text, found.stop) == ("Action: look\n", "Observation:")
    cut = found.generation
    kept = len(cut.token_ids)
    assert cut.token_ids == generation.token_ids[:kept]
    assert cut.logprobs == generation.logprobs[:kept]
    assert cut.finish is Finish.STOP
    assert "Observation:" in chat.decode(cut.token_ids)
    assert "Observation:" not in chat.decode(cut.token_ids[:-1])


def test_each_kept_token_keeps_its_weight_version(chat):
    generation = sampled(chat, "END and much more that is dropped, and more, and more")
    cut = cut_at(generation, ["END"], chat.said).generation
    assert cut.versions == (VersionSpan(0, len(cut.token_ids), 3),)


def test_the_earliest_of_several_stop_texts_counts(chat):
    found = cut_at(sampled(chat, "a B c D"), ["D", "B"], chat.said)
    assert (found.text, found.stop) == ("a ", "B")
