import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.harness.learning import small_model
from tests.harness.ranks import CASES, EXPORTED, WAYS, cases_of, found, learner_of, play, run_ranks

ALONE = {"sharding": "ddp"}
pytestmark = pytest.mark.timeout(900)

ALL_CASES = [
    pytest.param(world, way, name, id=f"{world} ranks, {way}, {name}")
    for world, ways in WAYS.items()
    for way in ways
    for name in cases_of(way)
]
ALL_WAYS = [
    pytest.param(world, way, id=f"{world} ranks, {way}") for world, ways in WAYS.items() for way in ways
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def alone(folder):
    """Return the results of one rank, which leaves a checkpoint after a step behind."""
    model = small_model(folder / "model")
    small_model(folder / "teacher", family="llama", hidden=16, layers=1)
    results = {}
    for name, case in CASES.items():
        learner = learner_of(model, case, ALONE)
        metrics = play(learner, case, (0,))
        if name == "ppo":
            learner.save(folder / "from-1").result()
        results[name] = found(learner, metrics + play(learner, case, (1,)))
    return results


@pytest.fixture(scope="module")
def together(folder, alone):
    return {world: run_ranks(folder, world) for world in WAYS}


def timeless(metrics):
    return [
        {name: value for name, value in each.items() if not name.startswith(("time/", "throughput/"))}
        for each in metrics
    ]


def assert_same(one, other, tolerance):
    assert one["weights"].keys() == other["weights"].keys()
    for name, weight in one["weights"].items():
        torch.testing.assert_close(weight, other["weights"][name], atol=tolerance, rtol=0, msg=name)
    for metrics, others in zip(timeless(one["metrics"]), timeless(other["metrics"]), strict=True):
        assert metrics == pytest.approx(others, abs=100 * tolerance)
    for logprobs, others in zip(one["probe"], other["probe"], strict=True):
        assert logprobs.tolist() == pytest.approx(others.tolist(), abs=10 * tolerance)


@pytest.mark.parametrize(("world", "way", "name"), ALL_CASES)
def test_ranks_learn_what_one_does(alone, together, world, way, name):
    for rank in range(world):
        assert_same(together[world][rank][way, name], alone[name], 2e-7)


@pytest.mark.parametrize(("world", "way", "name"), ALL_CASES)
def test_all_ranks_find_the_same_to_the_last_bit(together, world, way, name):
    for rank in range(1, world):
        assert_same(together[world][0][way, name], together[world][rank][way, name], 0.0)


@pytest.mark.parametrize(("world", "way"), ALL_WAYS)
def test_ranks_go_on_from_their_own_checkpoint(together, world, way):
    for rank in range(world):
        went_on, came_back, _ = together[world][rank][way, "checkpoint"]
        assert_same(went_on, came_back, 0.0)


@pytest.mark.parametrize(("world", "way"), ALL_WAYS)
def test_ranks_go_on_from_the_checkpoint_of_one(alone, together, world, way):
    for rank in range(world):
        *_, grown = together[world][rank][way, "checkpoint"]
        expected = {**alone["ppo"], "metrics": alone["ppo"]["metrics"][1:]}
        assert_same(grown, expected, 2e-7)


@pytest.mark.parametrize(("world", "way"), ALL_WAYS)
def test_one_goes_on_from_the_checkpoint_of_several(folder, alone, together, world, way):
    learner = learner_of(folder / "model", CASES["ppo"], ALONE)
    learner.load_checkpoint(folder / f"from-{way}")
    expected = {**alone["ppo"], "metrics": alone["ppo"]["metrics"][1:]}
    assert_same(found(learner, play(learner, CASES["ppo"], (1,))), expected, 2e-7)


@pytest.mark.parametrize(
    ("world", "way", "name"), [param for param in ALL_CASES if param.values[2] in EXPORTED]
)
def test_ranks_export_one_whole_model(folder, together, world, way, name):
    model = AutoModelForCausalLM.from_pretrained(folder / f"exported-{way}-{name}")
    expected = together[world][0][way, name]["weights"]
    assert model.state_dict().keys() == expected.keys()
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, expected[key]), key


@pytest.mark.parametrize("way", [way for ways in WAYS.values() for way in ways if way != "ddp"])
def test_an_adapter_of_shards_is_that_of_whole_weights(folder, together, way):
    one, other = (load_file(folder / f"adapter-{way}" / "adapter_model.safetensors") for way in ("ddp", way))
    assert one.keys() == other.keys()
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], atol=2e-7, rtol=0)
