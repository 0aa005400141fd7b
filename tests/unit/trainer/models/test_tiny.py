"""Tiny models: what lies in their folder, and what their tokenizer promises."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from sandbox_service.environments.code.box.prompts import NO_ACTION, task_message
from tests.harness.tiny_chat import tiny_chat, tiny_folder
from trainer.config.model import PretrainedModel, TinyModel
from trainer.errors import ConfigError, DataError
from trainer.models import make_tiny, model_folder
from trainer.models.corpus import PHRASES
from trainer.models.tokenizer import make_tokenizer

SMALL = {"hidden": 32, "layers": 1, "heads": 2, "key_value_heads": 1, "feed_forward": 32}


def small(**changes: object) -> TinyModel:
    return TinyModel.model_validate(SMALL | changes)


@pytest.mark.parametrize(
    ("family", "architecture"), [("qwen2", "Qwen2ForCausalLM"), ("llama", "LlamaForCausalLM")]
)
def test_a_folder_loads_as_any_model_does(family, architecture) -> None:
    folder = tiny_folder("bpe", family)
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == [architecture]
    assert config["vocab_size"] % 64 == 0
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == model.config.vocab_size
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == tiny_chat().stop_ids[0]
    ids = torch.tensor([tokenizer.encode("compute 37 plus 58")])
    assert model(ids).logits.shape == (1, ids.shape[1], model.config.vocab_size)


def test_common_loaders_tokenise_as_the_folder_says() -> None:
    common = AutoTokenizer.from_pretrained(tiny_folder("bpe", "qwen2"))
    for text in (*PHRASES, "compute (37 plus 58) times 4", "def f(x):\n    return x\n", "naïve 世界"):
        assert common.encode(text) == tiny_chat().encode(text)


def test_weights_are_tied_or_not_as_configured(tmp_path) -> None:
    make_tiny(small(tied_embeddings=False), tmp_path / "apart")
    apart = AutoModelForCausalLM.from_pretrained(tmp_path / "apart")
    tied = AutoModelForCausalLM.from_pretrained(tiny_folder())
    assert apart.lm_head.weight.data_ptr() != apart.model.embed_tokens.weight.data_ptr()
    assert tied.lm_head.weight.data_ptr() == tied.model.embed_tokens.weight.data_ptr()


def test_the_same_settings_make_the_same_model_and_another_seed_another(tmp_path) -> None:
    state = torch.get_rng_state()
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        make_tiny(small(seed=seed), tmp_path / name)
    first, second, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == second != other
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    assert torch.equal(state, torch.get_rng_state())


def test_a_model_is_made_once_under_a_name_of_its_settings(tmp_path) -> None:
    folder = model_folder(small(), tmp_path)
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert model_folder(small(), tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    assert model_folder(small(layers=2), tmp_path) != folder
    assert sorted(tmp_path.iterdir()) == sorted([folder, model_folder(small(layers=2), tmp_path)])


def test_what_another_process_made_meanwhile_is_kept(tmp_path) -> None:
    make_tiny(small(), tmp_path / "m")
    before = (tmp_path / "m/model.safetensors").read_bytes()
    make_tiny(small(seed=5), tmp_path / "m")
    assert (tmp_path / "m/model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("tokenizer", ["bpe", "bytes"])
@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_text_comes_back_as_it_was(tokenizer, text) -> None:
    chat = tiny_chat(tokenizer)
    assert chat.decode(chat.encode(text)) == text


@pytest.mark.parametrize("text", [*PHRASES, "12 + 3\n\n  x\t", "<|end|><|spare_0|><|user|>"])
def test_fixed_phrases_and_special_words_come_back_too(text) -> None:
    chat = tiny_chat()
    assert chat.decode(chat.encode(text)) == text


@pytest.mark.parametrize("tokenizer", ["bpe", "bytes"])
def test_every_digit_is_a_token(tokenizer) -> None:
    assert len(tiny_chat(tokenizer).encode("1234567890")) == 10


def test_bytes_are_tokens() -> None:
    assert len(tiny_chat("bytes").encode("print(é)")) == 9
    assert len(make_tokenizer(small(tokenizer="bytes"))) == 320


def test_the_code_environments_fixed_words_are_single_tokens() -> None:
    chat = tiny_chat()
    task = {"prompt": "7", "files": {}, "tested": False, "artifact": "answer.txt", "bare": False}
    closing = task_message(task).removeprefix("7")
    for text in (closing, NO_ACTION, "```python\nprint(", '"}}</tool_call>'):
        assert len(chat.encode(text)) == 1, text


def test_a_corpus_of_ones_own_teaches_its_words(tmp_path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the zyzzyva sings\n" * 50)
    config = small(corpus=corpus, vocabulary=320)
    tokenizer = make_tokenizer(config)
    assert len(tokenizer.encode(" zyzzyva", add_special_tokens=False)) == 1
    before = model_folder(config, tmp_path)
    corpus.write_text("another\n")
    assert model_folder(config, tmp_path) != before


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"vocabulary": 500}, "multiple of 64"),
        ({"vocabulary": 256}, "at least"),
        ({"hidden": 33}, "must be a multiple of model.heads"),
        ({"heads": 2, "key_value_heads": 4}, "key_value_heads"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings_, message, tmp_path) -> None:
    with pytest.raises(ConfigError, match=message):
        make_tiny(small(**settings_), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_corpus_is_an_error_of_the_data(tmp_path) -> None:
    with pytest.raises(DataError, match=r"missing\.txt"):
        model_folder(small(corpus=tmp_path / "missing.txt"), tmp_path)


def test_a_folder_of_ones_own_is_taken_as_it_is(tmp_path) -> None:
    folder = tiny_folder()
    assert model_folder(PretrainedModel(path=str(folder)), tmp_path) == folder.resolve()


def test_what_is_no_models_folder_is_an_error(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        model_folder(PretrainedModel(path=str(tmp_path)), tmp_path)


def test_the_template_marks_what_the_assistant_says() -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_folder())
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    told = tokenizer.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    said = [token for token, on in zip(told["input_ids"], told["assistant_masks"], strict=True) if on]
    assert tokenizer.decode(said) == "yes<|end|>"
