"""A run that goes on has the weights that it began with."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.harness.learning import small_model
from trainer.errors import CheckpointError, ConfigError
from trainer.launch.base_note import check_same_base, write_base_note


def changed(model, change):
    """Write the model's weights again, as ``change`` leaves them."""
    weights = load_file(model / "model.safetensors")
    change(weights)
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})


def test_a_base_that_was_trained_again_into_its_folder_is_refused(tmp_path):
    model = small_model(tmp_path / "base")
    write_base_note(tmp_path, model)
    check_same_base(tmp_path, model)
    (model / "README.md").write_text("A word more about the same weights.")
    check_same_base(tmp_path, model)
    changed(model, lambda weights: weights["model.layers.1.mlp.down_proj.weight"].mul_(1.001))
    with pytest.raises(ConfigError, match=r"weights in .*base changed since the run began.*--force"):
        check_same_base(tmp_path, model)


@pytest.mark.parametrize("size", [1, 5_000, 1_000_000])
def test_a_tensor_of_any_size_is_looked_at(tmp_path, size):
    model = small_model(tmp_path / "base")
    changed(model, lambda weights: weights.update(more=torch.zeros(size)))
    write_base_note(tmp_path, model)
    changed(model, lambda weights: weights["more"].add_(1))
    with pytest.raises(ConfigError, match="changed since the run began"):
        check_same_base(tmp_path, model)


def test_weights_of_the_same_values_in_another_precision_are_another_base(tmp_path):
    model = small_model(tmp_path / "base")
    write_base_note(tmp_path, model)
    changed(model, lambda weights: weights.update({name: each.bfloat16() for name, each in weights.items()}))
    with pytest.raises(ConfigError, match="changed since the run began"):
        check_same_base(tmp_path, model)


def test_an_older_run_without_a_note_goes_on(tmp_path):
    check_same_base(tmp_path, small_model(tmp_path / "base"))


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
def test_a_note_that_cannot_be_read_is_an_error(tmp_path, content):
    (tmp_path / "base_model.json").write_text(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        check_same_base(tmp_path, small_model(tmp_path / "base"))


def test_weights_that_are_cut_off_are_named(tmp_path):
    model = small_model(tmp_path / "base")
    whole = (model / "model.safetensors").read_bytes()
    index = {"weight_map": {"a": "model.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (model / "model.safetensors").write_bytes(whole[:50])
    with pytest.raises(ConfigError, match=r"model\.safetensors cannot be read"):
        write_base_note(tmp_path, model)
