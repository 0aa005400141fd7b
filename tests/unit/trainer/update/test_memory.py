"""Against torch's own counters: storages of tensors, and the tracker of FSDP2's memory."""

import pytest
import torch
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from tests.fakes.pretended_ranks import one_of
from tests.harness.architectures import tiny_model
from tests.harness.learning import run_config, small_batch, small_model
from trainer.update.learner import Learner
from trainer.update.memory import ModelShape, rank_memory, shape_of
from trainer.update.mesh import Mesh
from trainer.update.partition import rank_micro_batches

WORDS = 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("memory") / "model", hidden=64, layers=4, words=WORDS)


def storage(tensors):
    """Bytes that are there for tensors, what one is a view of counted once."""
    local = [each.to_local() if isinstance(each, DTensor) else each for each in tensors]
    return sum(
        {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in local}.values()
    )


def shape_of_core(core):
    return ModelShape.of(core, core.language.config)


def a_learner(folder, world, **settings):
    config = run_config(
        learner={"micro_batch_tokens": 100_000, "workers": world, **settings},
        algorithm={"kl": {"place": "loss"}},
    )
    learner = Learner(folder, config.learner_settings, "cpu", 0, world)
    learner.begin_stage(config.learner.optimizer, 10)
    return learner


WAYS = {
    "sharded": {"sharding": "fsdp2"},
    "copies": {"sharding": "fsdp2", "replicas": 2},
    "LoRA": {"sharding": "fsdp2", "lora": {"rank": 4}},
}


@pytest.mark.parametrize("world", [4, 6])
@pytest.mark.parametrize("way", WAYS)
def test_states_are_what_torch_has(folder, world, way):
    with one_of(world):
        learner = a_learner(folder, world, **WAYS[way])
        core, optimizer = learner.model.core, learner.optimizer
        expected = rank_memory(
            shape_of_core(core), learner.settings.learner, learner.model.mesh, half=False, reference=True
        )
        learner.update(learner.annotate(small_batch(words=WORDS)))
        assert storage(core.parameters()) == expected.weights
        gradients = [each.grad for each in optimizer.parameters.values()]
        assert storage(gradients) == pytest.approx(expected.gradients, rel=0.02)
        assert storage(optimizer.moments().values()) == expected.moments
        assert storage(learner.reference.values.values()) == expected.reference


def test_a_rank_alone_has_all_states(folder):
    learner = a_learner(folder, 1)
    core = learner.model.core
    expected = rank_memory(shape_of_core(core), learner.settings.learner, Mesh(), half=False)
    learner.update(learner.annotate(small_batch(words=WORDS)))
    assert storage(core.parameters()) == expected.weights == 4 * shape_of_core(core).parameters
    assert storage(each.grad for each in core.parameters()) == expected.gradients
    assert storage(learner.optimizer.moments().values()) == expected.moments


def test_a_folder_tells_the_shape_without_loading_weights(folder):
    config = run_config(learner={"lora": {"rank": 4}}, algorithm={"advantage": {"kind": "gae"}})
    learner = Learner(folder, config.learner_settings, "cpu")
    assert shape_of(folder, config.learner_settings) == shape_of_core(learner.model.core)


def test_a_model_whose_layers_differ_has_the_shape_of_the_widest(tmp_path):
    layer = shape_of(tiny_model("gemma-4", tmp_path), run_config().learner_settings).layer
    assert (layer.heads, layer.key_heads, layer.head) == (4, 1, 16)


def test_offloaded_states_are_in_host_memory(folder):
    shape, mesh = shape_of(folder, run_config().learner_settings), Mesh(0, 4)
    kept, offloaded = (
        rank_memory(
            shape,
            run_config(learner={"sharding": "fsdp2", "workers": 4, "offload": place}).learner,
            mesh,
            half=True,
        )
        for place in ("none", "parameters")
    )
    assert offloaded.states == 0
    assert offloaded.host == kept.states


SIZES = {
    "vocab_size": 32,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 160,
    "max_position_embeddings": 512,
}
TOKENS = 256


def saved_for_backward(language):
    """Bytes that autograd keeps of a pass, weights left out."""
    weights = {each.untyped_storage().data_ptr() for each in language.parameters()}
    kept = []

    def keep(tensor):
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        language.model(input_ids=torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False)
    return storage([each for each in kept if each.untyped_storage().data_ptr() not in weights])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("layers", [2, 6])
@pytest.mark.parametrize("kind", [LlamaConfig, Qwen2Config, Qwen3Config])
def test_what_the_backward_pass_needs_is_foreseen(kind, layers, dtype):
    language = AutoModelForCausalLM.from_config(kind(**SIZES, num_hidden_layers=layers)).to(dtype)
    shape = ModelShape.of(language, language.config)
    learner = run_config(learner={"sharding": "fsdp2", "micro_batch_tokens": TOKENS}).learner
    expected = rank_memory(shape, learner, Mesh(), half=dtype == torch.bfloat16)
    assert saved_for_backward(language) == pytest.approx(expected.activations, rel=0.05)


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointed"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_peak_of_an_update_is_foreseen(folder, dtype, checkpointing):
    """With one micro-batch, of which the tracker says the peak."""
    with one_of(8):
        learner = a_learner(
            folder, 8, sharding="fsdp2", dtype=dtype, gradient_checkpointing=checkpointing, layout="packed"
        )
        core, batch = learner.model.core, small_batch(rows=64, longest=32, words=WORDS)
        shape = shape_of_core(core)
        tracker = FSDPMemTracker(core, learner.optimizer.adam.wrapped)
        annotated = learner.annotate(batch)
        lengths = [len(sample) for sample in batch.samples]
        (mine,) = rank_micro_batches(lengths, range(64), learner.model.mesh, 100_000, "packed")
        with tracker:
            learner.update(annotated)
        (peak,) = tracker.get_tracker_snapshot("peak").values()
        expected = rank_memory(
            shape,
            learner.settings.learner,
            learner.model.mesh,
            half=dtype == "bfloat16",
            tokens=sum(lengths[row] for row in mine),
            logit_rows=sum(int(batch.samples[row].mask_T.sum()) for row in mine),
        )
        assert peak["Total"] == pytest.approx(expected.total, rel=0.12)
