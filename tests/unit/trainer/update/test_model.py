import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from tests.harness.learning import WORDS, load_model, run_config, small_model
from trainer.errors import ConfigError
from trainer.update.packing import Row, lay_out

CPU = torch.device("cpu")
PPO = {"advantage": {"kind": "gae"}}
TOLERANCE = 1e-5
"""Of float32 log-probabilities, whose last digits depend on the processor; another token changes far more."""


def rows_of(*lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [Row(rng.integers(0, WORDS, n).astype(np.int32), np.arange(n) > 0) for n in lengths]


def alone(folder, row):
    """Log-probabilities by transformers itself, of one sequence by itself."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.from_numpy(row.token_ids_T.astype(np.int64))[None]
    with torch.no_grad():
        logp = model(input_ids=ids).logits.log_softmax(-1)
    return logp[0, :-1].gather(-1, ids[0, 1:, None])[:, 0]


@pytest.fixture(params=["qwen2", "llama"])
def folder(request, tmp_path):
    return small_model(tmp_path / "model", request.param)


@pytest.fixture
def windowed(tmp_path):
    """A model whose second layer sees the last four tokens only."""
    config = Qwen2Config(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "windowed")
    return tmp_path / "windowed"


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_samples_of_a_pass_do_not_see_each_other(folder, layout):
    rows = rows_of(9, 14, 2, 5)
    model = load_model(folder, run_config(learner={"layout": layout}).learner_settings).eval()
    with torch.no_grad():
        got = model(lay_out(rows, (0, 1, 2, 3), layout, CPU)).logprobs_K
    torch.testing.assert_close(got, torch.cat([alone(folder, row) for row in rows]), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_neither_do_those_of_a_model_with_a_sliding_window(windowed, layout):
    rows = rows_of(9, 14, 5)
    model = load_model(windowed, run_config(learner={"layout": layout}).learner_settings).eval()
    with torch.no_grad():
        got = model(lay_out(rows, (0, 1, 2), layout, CPU)).logprobs_K
    torch.testing.assert_close(got, torch.cat([alone(windowed, row) for row in rows]), atol=TOLERANCE, rtol=0)


def test_values_are_of_the_state_before_the_token(folder):
    model = load_model(folder, run_config(algorithm=PPO).learner_settings).eval()
    torch.nn.init.normal_(model.value_head.weight)
    (row,) = rows_of(8)
    other = Row(row.token_ids_T.copy(), row.kept_T)
    other.token_ids_T[5] += 1
    with torch.no_grad():
        one, two = (model(lay_out([each], (0,), "padded", CPU)).values_K for each in (row, other))
    assert torch.equal(one[:5], two[:5])  # of tokens 1 to 5
    assert (one[5:] != two[5:]).all()


def test_a_detached_critic_leaves_the_trunk_alone(folder):
    config = run_config(algorithm={**PPO, "value": {"detach": True}})
    model = load_model(folder, config.learner_settings)
    torch.nn.init.normal_(model.value_head.weight)
    model(lay_out(rows_of(8), (0,), "padded", CPU)).values_K.sum().backward()
    assert model.value_head.weight.grad is not None
    assert all(parameter.grad is None for parameter in model.language.parameters())


def test_a_critic_begins_with_no_opinion(folder):
    model = load_model(folder, run_config(algorithm=PPO).learner_settings)
    assert model(lay_out(rows_of(8), (0,), "padded", CPU)).values_K.tolist() == [0.0] * 7
    assert load_model(folder, run_config().learner_settings).value_head is None


def test_lora_trains_adapters_alone_and_begins_as_the_base(folder):
    model = load_model(folder, run_config(learner={"lora": {"rank": 2}}).learner_settings).eval()
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all(".lora_" in name for name in trained)
    (row,) = rows_of(8)
    with torch.no_grad():
        got = model(lay_out([row], (0,), "padded", CPU)).logprobs_K
    torch.testing.assert_close(got, alone(folder, row), atol=TOLERANCE, rtol=0)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        load_model(tmp_path, run_config().learner_settings)
