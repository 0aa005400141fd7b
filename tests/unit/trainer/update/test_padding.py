"""An exported reward model pads with a token that ends no turn, for transformers' own class."""

import json
import shutil

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.harness.chat_templates import CHATML, write_tokenizer
from tests.harness.reward_folders import reward_folder
from tests.harness.tiny_chat import tiny_folder
from trainer.reward_models.model import RewardModel
from trainer.reward_models.rows import ScoredRow
from trainer.update.padding import separate_padding


def padded_with(folder, token):
    """The folder of a reward model that pads with a token, in all of its files."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = token
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) if (folder / "config.json").exists() else {}
    config["pad_token_id"] = tokenizer.convert_tokens_to_ids(token)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def padding_of(folder):
    number = json.loads((folder / "config.json").read_text())["pad_token_id"]
    return number, AutoTokenizer.from_pretrained(folder).pad_token


def test_transformers_reads_the_token_that_ends_the_turn(tmp_path):
    folder = reward_folder(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = tokenizer.eos_token
    padded_with(folder, end)
    texts = [f"Two and two?{end}", f"4{end}"]
    ids = [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    ours = RewardModel.load(folder).score_rows([ScoredRow(each, (len(each),)) for each in ids])
    separate_padding(folder)
    batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        theirs = model(**batch).logits
    assert theirs[:, 0].tolist() == pytest.approx([each[0, 0] for each in ours], abs=1e-5)


@pytest.mark.parametrize(("template", "token"), [(CHATML, "<|im_end|>"), ("{{ eos_token }}", "</s>")])
def test_a_token_that_the_template_writes_is_replaced_by_one_that_it_does_not_write(
    tmp_path, template, token
):
    folder = padded_with(write_tokenizer(tmp_path, template), token)
    separate_padding(folder)
    number, name = padding_of(folder)
    assert AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(name) == number
    assert name not in template
    assert name not in ("<s>", "</s>", token)


def test_other_padding_is_left_alone(tmp_path):
    folder = padded_with(write_tokenizer(tmp_path, CHATML), "<|eot_id|>")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    separate_padding(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_model_without_another_special_token_has_no_padding(tmp_path):
    folder = shutil.copytree(tiny_folder(), tmp_path / "model")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    named = AutoTokenizer.from_pretrained(folder).eos_token
    (end,) = [each for each in tokenizer["added_tokens"] if each["content"] == named]
    tokenizer["added_tokens"] = [end]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "pad_token_id": end["id"]}))
    separate_padding(folder)
    assert json.loads((folder / "config.json").read_text())["pad_token_id"] is None
