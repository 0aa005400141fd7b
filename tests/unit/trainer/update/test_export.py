import ast
import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from tests.harness.architectures import ARCHITECTURES, tiny_model
from tests.harness.learning import load_model, run_config, small_batch, small_model
from tests.harness.multimodal import FAMILIES, architecture_of, multimodal_model, with_prediction_layers
from trainer.chat.folder import FURTHER_TEMPLATES
from trainer.errors import ConfigError
from trainer.update.learner import Learner
from trainer.update.weights import adapter_weights, merged_weights


def tensors(folder):
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        found |= load_file(file)
    return found


def exported(source, target, **learner):
    trained = Learner(source, run_config(learner=learner).learner_settings, "cpu")
    trained.begin_stage(trained.settings.learner.optimizer, 2)
    trained.update(small_batch())
    trained.export(target)
    return trained


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_leave_as_they_came(name, tmp_path):
    folder = tiny_model(name, tmp_path / "model")
    core = load_model(folder, run_config().learner_settings)
    sent = dict(merged_weights(core, tied_head=False))
    expected = tensors(folder)
    assert sent.keys() | set(core.origin.naming.others) == expected.keys()
    for key, tensor in sent.items():
        assert torch.equal(tensor, expected[key]), key


def test_further_chat_templates_are_exported(tmp_path):
    folder = small_model(tmp_path / "model")
    (folder / FURTHER_TEMPLATES).mkdir()
    (folder / FURTHER_TEMPLATES / "tool_use.jinja").write_text("{{ tools }}")
    exported(folder, tmp_path / "out")
    assert (tmp_path / "out" / FURTHER_TEMPLATES / "tool_use.jinja").read_text() == "{{ tools }}"


@pytest.mark.parametrize("name", ["qwen3-moe", "mixtral with a window"])
def test_experts_leave_one_by_one_as_the_hub_has_them(name, tmp_path):
    folder = tiny_model(name, tmp_path / "model")
    exported(folder, tmp_path / "out")
    found = tensors(tmp_path / "out")
    assert found.keys() == tensors(folder).keys()
    assert any(".experts.3." in key for key in found)
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert type(model).__name__ == architecture_of(folder)


def test_a_model_in_16_bits_is_exported_in_16_bits(tmp_path):
    folder = small_model(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder).to(torch.bfloat16)
    model.save_pretrained(folder)
    exported(folder, tmp_path / "out")
    assert {tensor.dtype for tensor in tensors(tmp_path / "out").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "bfloat16"
    size = (folder / "model.safetensors").stat().st_size
    assert (tmp_path / "out/model.safetensors").stat().st_size == pytest.approx(size, rel=0.01)


def test_a_model_in_several_files_is_exported_in_as_many(tmp_path):
    folder = small_model(tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    trained = exported(folder, tmp_path / "out")
    names = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert names == sorted(each.name for each in folder.iterdir())
    assert len([name for name in names if name.endswith(".safetensors")]) > 2
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    for key, tensor in trained.named_weights():
        assert torch.equal(found[key], tensor), key


def test_an_export_replaces_an_earlier_one_and_leaves_no_draft(tmp_path):
    folder = small_model(tmp_path / "model")
    (folder / "README.md").write_text("what its makers say of it")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/stale").touch()
    exported(folder, tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "out"]
    assert not (tmp_path / "out/stale").exists()
    assert not (tmp_path / "out/README.md").exists()
    assert (tmp_path / "out/tokenizer.json").exists()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lora", [None, {"rank": 2}], ids=["full", "lora"])
def test_the_text_part_of_a_multimodal_folder_learns_and_the_rest_stays(family, lora, tmp_path):
    folder = with_prediction_layers(multimodal_model(family, tmp_path / "model"))
    trained = exported(folder, tmp_path / "out", lora=lora)
    before, after = tensors(folder), tensors(tmp_path / "out")
    assert before.keys() == after.keys()
    changed = {key for key, tensor in after.items() if not torch.equal(tensor, before[key])}
    assert changed
    assert all("language_model." in key for key in changed)
    assert architecture_of(tmp_path / "out") == architecture_of(folder)
    model, info = AutoModelForImageTextToText.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"]
    ids = [3, 7, 1, 9]
    with torch.no_grad():
        logp = model.eval()(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = [float(logp[at, token]) for at, token in enumerate(ids[1:])]
    assert trained.probe([tuple(ids)])[0][1:].tolist() == pytest.approx(expected, abs=1e-5)


VLLM_SOURCES = {
    "qwen3_5": ("qwen3_vl.py", "Qwen3VLForConditionalGeneration"),  # whose mapper Qwen3.5's begins with
    "gemma3": ("gemma3_mm.py", "Gemma3ForConditionalGeneration"),
}


def vllm_prefixes(file, name):
    """Return the prefixes of names by a model class of vLLM; importing it would take torchvision."""
    installed = importlib.util.find_spec("vllm")
    if installed is None:
        pytest.skip("vLLM is not installed")
    source = Path(installed.submodule_search_locations[0], "model_executor/models", file).read_text()
    (owner,) = [
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    for node in ast.walk(owner):
        if isinstance(node, ast.keyword) and node.arg == "orig_to_new_prefix":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name} maps no prefixes")


@pytest.mark.parametrize("family", FAMILIES)
def test_vllm_knows_the_names_that_weights_of_a_multimodal_folder_are_sent_under(family, tmp_path):
    prefixes = vllm_prefixes(*VLLM_SOURCES[family])
    core = load_model(
        multimodal_model(family, tmp_path / "model"),
        run_config(learner={"lora": {"rank": 2}}).learner_settings,
    )
    sent = [key for key, _ in merged_weights(core)]
    adapter = [key.removeprefix("base_model.model.") for key, _ in adapter_weights(core)]
    assert len(sent) > 20
    for key in (*sent, *adapter):
        mapped = next(
            (new + key.removeprefix(old) for old, new in prefixes.items() if key.startswith(old)), key
        )
        assert mapped.startswith(("language_model.model.", "language_model.lm_head.")), key


def test_what_is_quantised_is_refused(tmp_path):
    folder = small_model(tmp_path / "model")
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**said, "quantization_config": {"quant_method": "mxfp4"}})
    )
    with pytest.raises(ConfigError, match="quantised \\(mxfp4\\)"):
        load_model(folder, run_config().learner_settings)


def test_weights_under_the_names_of_a_bare_trunk_leave_under_these(tmp_path):
    folder = small_model(tmp_path / "model")
    bare = {key.removeprefix("model."): tensor for key, tensor in tensors(folder).items()}
    save_file(bare, folder / "model.safetensors", metadata={"format": "pt"})
    core = load_model(folder, run_config().learner_settings)
    assert {key for key, _ in merged_weights(core, tied_head=False)} == bare.keys()
