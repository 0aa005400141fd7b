"""vLLM's own loading under small updates: what was sent, taken and left out is known exactly."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from tests.fakes.weight_owner import ModelOwner
from tests.harness.learning import small_model
from tests.harness.local_engine import LocalEngine
from trainer.config import RunConfig
from trainer.errors import StaleWeights
from trainer.weight_sync import shared_file
from trainer.weight_sync.sync import make_weight_sync

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

RATE = 1e-5
HEAD = "lm_head.weight"
LAYER = "model.layers.1."


class World:
    """A learner and a real engine in bfloat16, and no comparison of log-probabilities."""

    def __init__(self, folder, words, tied):
        model = small_model(folder / "model", tied=tied, hidden=128, words=words)
        self.run = RunConfig.model_validate(
            {
                "name": "receipts",
                "root": folder,
                "engine": {"kv_cache_mib": 32, "dtype": "bfloat16"},
                "sync": {"folder": folder, "timeout_s": 100, "check": False, "checksum_every": 1},
            }
        )
        self.owner = ModelOwner(model)
        self.engine = LocalEngine(self.run, model)
        self.version = 0

    def sync_weights(self):
        self.version += 1
        self.owner.move(RATE, self.version)
        make_weight_sync(self.run.sync_settings, [self.engine], self.owner, 0).sync_weights(self.version)


HEADS = {"packed": (128, True), "padded": (100, True), "untied": (128, False)}


@pytest.fixture(scope="module", params=HEADS)
def world(request, tmp_path_factory):
    """Output heads that are packed beside the embedding, that have rows of padding, that are no embedding."""
    words, tied = HEADS[request.param]
    world = World(tmp_path_factory.mktemp("run"), words, tied)
    yield world
    world.engine.close()


def test_all_that_was_sent_is_taken_and_loaded_also_by_an_engine_that_catches_up(world):
    world.sync_weights()
    version, (receipt,) = world.engine.get_receipts().result()
    assert version == world.version
    assert receipt["left_out"] == []
    assert {name for name, _ in world.owner.named_weights()} <= receipt["tensors"].keys()
    world.engine.load_newest_snapshot().result()
    assert world.engine.get_receipts().result() == (version, (receipt,))


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (f"{LAYER}mlp.down_proj.weight", f"{LAYER}mlp.down_proj.weight"),
        (f"{LAYER}self_attn.q_proj.weight", f"{LAYER}self_attn.qkv_proj"),
        (f"{LAYER}input_layernorm.weight", f"{LAYER}input_layernorm.weight"),
        (HEAD, HEAD),
    ],
)
def test_what_a_learner_never_sends_is_what_the_engine_says_it_lacks(world, monkeypatch, lost, told):
    whole = shared_file.complete
    monkeypatch.setattr(
        shared_file,
        "complete",
        lambda weights, dtype: (each for each in whole(weights, dtype) if each[0] != lost),
    )
    with pytest.raises(StaleWeights, match=f"engine-0 still has former values in {told}"):
        world.sync_weights()
