import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.fakes.learning import small_model
from tests.fakes.ranks import CASES, EXPORTED, SHARDINGS, WORLD, found, learner_of, play, run_two_ranks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def alone(folder):
    """What one rank finds, which leaves a checkpoint after a step behind."""
    model = small_model(folder / "model")
    results = {}
    for name, case in CASES.items():
        learner = learner_of(model, case, "ddp")
        metrics = play(learner, case, (0,))
        if name == "ppo":
            learner.save(folder / "from-1")
        results[name] = found(learner, metrics + play(learner, case, (1,)))
    return results


@pytest.fixture(scope="module")
def together(folder, alone):
    return run_two_ranks(folder)


def timeless(metrics):
    return [{name: value for name, value in each.items() if not name.startswith("time/")} for each in metrics]


def assert_same(one, other, tolerance):
    assert one["weights"].keys() == other["weights"].keys()
    for name, weight in one["weights"].items():
        torch.testing.assert_close(weight, other["weights"][name], atol=tolerance, rtol=0, msg=name)
    for metrics, others in zip(timeless(one["metrics"]), timeless(other["metrics"]), strict=True):
        assert metrics == pytest.approx(others, abs=100 * tolerance)
    for logprobs, others in zip(one["probe"], other["probe"], strict=True):
        assert logprobs.tolist() == pytest.approx(others.tolist(), abs=10 * tolerance)


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_learn_what_one_does(alone, together, sharding, name):
    for rank in range(WORLD):
        assert_same(together[rank][sharding, name], alone[name], 2e-7)


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", CASES)
def test_all_ranks_find_the_same_to_the_last_bit(together, sharding, name):
    assert_same(together[0][sharding, name], together[1][sharding, name], 0.0)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_ranks_go_on_from_their_own_checkpoint_bit_for_bit(together, sharding):
    for rank in range(WORLD):
        went_on, came_back, _ = together[rank][sharding, "checkpoint"]
        assert_same(went_on, came_back, 0.0)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_ranks_go_on_from_the_checkpoint_of_one(alone, together, sharding):
    for rank in range(WORLD):
        *_, grown = together[rank][sharding, "checkpoint"]
        expected = {**alone["ppo"], "metrics": alone["ppo"]["metrics"][1:]}
        assert_same(grown, expected, 2e-7)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_one_goes_on_from_the_checkpoint_of_two(folder, alone, together, sharding):
    learner = learner_of(folder / "model", CASES["ppo"], "ddp")
    learner.load(folder / f"from-2-{sharding}")
    expected = {**alone["ppo"], "metrics": alone["ppo"]["metrics"][1:]}
    assert_same(found(learner, play(learner, CASES["ppo"], (1,))), expected, 2e-7)


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", EXPORTED)
def test_ranks_export_one_whole_model(folder, together, sharding, name):
    model = AutoModelForCausalLM.from_pretrained(folder / f"exported-{sharding}-{name}")
    expected = together[0][sharding, name]["weights"]
    assert model.state_dict().keys() == expected.keys()
    for key, weight in model.state_dict().items():
        assert torch.equal(weight, expected[key]), key


def test_an_adapter_of_shards_is_that_of_whole_weights(folder, together):
    one, other = (
        load_file(folder / f"adapter-{sharding}" / "adapter_model.safetensors") for sharding in SHARDINGS
    )
    assert one.keys() == other.keys()
    for name, weight in one.items():
        torch.testing.assert_close(weight, other[name], atol=2e-7, rtol=0)
