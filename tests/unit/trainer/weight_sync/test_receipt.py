"""Receipts find each fault of a transfer exactly, however small the update was."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.model_engine import HEAD, ModelEngine
from tests.fakes.weight_owner import ModelOwner
from tests.harness.learning import small_model
from trainer.config import RunConfig
from trainer.errors import StaleWeights
from trainer.weight_sync.receipt import TensorRecorder
from trainer.weight_sync.snapshots import newest_snapshot, snapshot_folder
from trainer.weight_sync.sync import make_weight_sync

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

TINY = 1e-5
"""A hundredth of the spacing of bfloat16 at these weights."""
SQUARE = "model.layers.1.self_attn.q_proj.weight"
OBLONG = "model.layers.1.mlp.down_proj.weight"
LAYER = "model.layers.0."
ADAPTED = "q_proj.lora_A.weight"


class World:
    """A run that compares checksums at every weight sync, and one in good health behind it."""

    def __init__(self, folder, every=1, transport="shared_file"):
        model = small_model(folder / "model")
        self.engine = ModelEngine(model)
        self.owner = ModelOwner(model)
        self.owner.adapter = self.adapter
        self.run = RunConfig.model_validate(
            {
                "root": folder,
                "engine": {"device": "cpu", "dtype": "bfloat16"},
                "learner": {"lora": {"rank": 8}} if transport == "adapter" else {},
                "sync": {
                    "folder": folder,
                    "timeout_s": 60,
                    "checksum_every": every,
                    "check": False,
                    "transport": transport,
                },
            }
        )
        self.weight_sync = make_weight_sync(self.run.sync_settings, [self.engine], self.owner, 0)
        self.version = 0
        self.sync_weights()

    def sync_weights(self, by=TINY):
        self.version += 1
        self.owner.move(by, self.version)
        self.weight_sync.sync_weights(self.version)

    def adapter(self, folder):
        save_file({ADAPTED: torch.arange(9.0).view(3, 3)}, folder / "adapter_model.safetensors")


def former(world):
    """Tensors of a layer as they were at the weight sync before."""
    old = load_file(newest_snapshot(snapshot_folder(world.run.folder, world.run.sync.folder)).path)
    return lambda tensors: ((n, old[n] if n.startswith(LAYER) else each) for n, each in tensors)


def without(name):
    return lambda tensors: ((other, each) for other, each in tensors if other != name)


def transposed(name):
    return lambda tensors: ((other, each.T if other == name else each) for other, each in tensors)


def exchanged(one, other):
    """Two tensors of the same shape under each other's names."""
    names = {one: other, other: one}
    return lambda tensors: ((names.get(name, name), each) for name, each in tensors)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        pytest.param(without(OBLONG), f"did not get {OBLONG} of version 2", id="one tensor is lost"),
        pytest.param(without(HEAD), f"did not get {HEAD} of version 2", id="the tied head is lost"),
        pytest.param(
            transposed(SQUARE), f"{SQUARE} of version 2 .* values are others", id="square transposed"
        ),
        pytest.param(
            exchanged(SQUARE, SQUARE.replace("q_proj", "o_proj")), "values are others", id="two exchanged"
        ),
    ],
)
def test_what_is_lost_or_changed_on_the_way_ends_the_run_however_small_the_update(tmp_path, way, told):
    world = World(tmp_path)
    world.engine.way = way
    with pytest.raises(StaleWeights, match=f"engine-0.*{told}"):
        world.sync_weights()


def test_one_layer_of_the_version_before_ends_the_run(tmp_path):
    world = World(tmp_path)
    world.engine.way = former(world)
    with pytest.raises(StaleWeights, match=rf"{LAYER}\S+ of version 2 .* values are others"):
        world.sync_weights()


def test_checksums_are_taken_every_so_often_and_names_and_shapes_always(tmp_path):
    world = World(tmp_path, every=3)
    world.engine.way = transposed(SQUARE)
    world.sync_weights()
    world.sync_weights()
    with pytest.raises(StaleWeights, match=f"{SQUARE} of version 4"):
        world.sync_weights()


@pytest.mark.parametrize(
    ("way", "told"),
    [
        pytest.param(transposed(OBLONG), r"the shape is \[96, 32\] and not \[32, 96\]", id="transposed"),
        pytest.param(without(OBLONG), "did not get", id="lost"),
        pytest.param(
            lambda tensors: ((n, t.float()) for n, t in tensors),
            "is float32 and not bfloat16",
            id="as float32",
        ),
        pytest.param(
            lambda tensors: (*tensors, ("more", torch.ones(1))), "got more, which is not", id="surplus"
        ),
    ],
)
def test_between_checksums_names_precision_and_shapes_are_compared(tmp_path, way, told):
    world = World(tmp_path, every=100)
    world.sync_weights()
    world.engine.way, world.engine.skips = way, (OBLONG,)
    with pytest.raises(StaleWeights, match=told):
        world.sync_weights()


def test_what_arrived_and_was_not_loaded_ends_the_run(tmp_path):
    world = World(tmp_path, every=100)
    world.engine.skips = (HEAD,)
    with pytest.raises(StaleWeights, match=f"engine-0 still has former values in {HEAD}"):
        world.sync_weights()


def test_a_learner_that_leaves_a_tensor_out_is_found_by_what_it_sent_before(tmp_path):
    world = World(tmp_path, every=100)
    own = world.owner.named_weights
    world.owner.named_weights = lambda: without(OBLONG)(own())
    with pytest.raises(StaleWeights, match=f"other tensors with version 2 than before: {OBLONG}"):
        world.sync_weights()


def test_a_learner_that_leaves_a_tensor_out_at_first_is_found_by_what_the_engine_lacks(tmp_path):
    world = World(tmp_path)
    own = world.owner.named_weights
    world.owner.named_weights = lambda: without(OBLONG)(own())
    world.weight_sync = make_weight_sync(world.run.sync_settings, [world.engine], world.owner, 0)
    with pytest.raises(StaleWeights, match=f"former values in {OBLONG}"):
        world.sync_weights()


@pytest.mark.parametrize(
    "faults", [{"forgets_adapters": True}, {"mislabels": -1}, {"way": transposed(ADAPTED)}]
)
def test_an_adapter_that_is_missing_old_or_another_ends_the_run(tmp_path, faults):
    world = World(tmp_path, transport="adapter")
    world.sync_weights()
    for name, fault in faults.items():
        setattr(world.engine, name, fault)
    with pytest.raises(StaleWeights, match=r"the adapter|took version 2|values are others"):
        world.sync_weights()


def test_checksums_know_position_precision_and_every_bit_and_not_the_layout_in_memory():
    square = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    flipped = square.clone()
    flipped.view(torch.int32)[39, 39] ^= 1
    long = torch.arange(3 << 20, dtype=torch.int32)
    recorder = TensorRecorder(contents=True)
    given = {
        "it": square,
        "same": square.T.contiguous().T,
        "transposed": square.T,
        "flipped": flipped,
        "half": square.bfloat16(),
        "long": long,
        "rolled": long.roll(1 << 20),
        "empty": torch.zeros(0, 3),
        "number": torch.ones(()),
    }
    dict(recorder.passing(given.items()))
    found = {name: each.checksum for name, each in recorder.found().items()}
    assert found.pop("same") == found["it"]
    assert len(set(found.values())) == len(found)
