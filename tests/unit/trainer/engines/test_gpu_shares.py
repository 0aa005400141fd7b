import pytest

from trainer.config import RunConfig
from trainer.engines.gpu_shares import check_shares, share_problems
from trainer.errors import ConfigError
from trainer.weight_sync.choice import resolve_transport, shares_gpus


def run(learner, engine, **branches):
    return RunConfig.model_validate({"learner": learner, "engine": engine} | branches)


@pytest.mark.parametrize(
    ("learner", "engine"),
    [
        ({"workers": 8, "gpus": 0.6}, {"count": 8, "gpus": 0.4}),
        ({"workers": 8, "gpus": 0.4}, {"count": 8, "gpus": 0.6}),
        ({"workers": 4, "gpus": 0.5}, {"count": 4, "gpus": 0.5}),
        ({"workers": 4, "gpus": 0.2}, {"count": 2, "gpus": 0.1, "tensor_parallel": 2}),
        ({"workers": 4, "gpus": 0.7}, {"count": 1, "gpus": 0.3}),
    ],
)
def test_shares_that_fit_a_gpu_together_are_shared_and_weights_go_within_it(learner, engine):
    config = run(learner, engine)
    assert shares_gpus(config.hardware, "cuda")
    assert resolve_transport(config.hardware, "cuda") == "ipc"
    assert not list(share_problems(config.hardware, "cuda"))


@pytest.mark.parametrize(
    ("learner", "engine", "transport"),
    [
        ({"workers": 4, "gpus": 1}, {"count": 4}, "nccl"),
        ({"workers": 4, "gpus": 1}, {"count": 1, "gpus": 0.5}, "nccl"),
        ({"gpus": 0}, {"count": 4, "gpus": 0.25}, "shared_file"),
    ],
)
def test_other_shares_are_placed_apart(learner, engine, transport):
    config = run(learner, engine)
    assert not shares_gpus(config.hardware, "cuda")
    assert resolve_transport(config.hardware, "cuda") == transport
    assert not list(share_problems(config.hardware, "cuda"))


def test_engines_on_cpus_share_no_gpu():
    config = run({"gpus": 0.5}, {"gpus": 0.5})
    assert not shares_gpus(config.hardware, "cpu")
    assert not list(share_problems(config.hardware, "cpu"))


@pytest.mark.parametrize(
    ("learner", "engine", "branches", "said"),
    [
        ({"workers": 4, "gpus": 0.6}, {"count": 4, "gpus": 0.6}, {}, "add up to more than a GPU"),
        ({"workers": 4, "gpus": 1}, {"count": 4, "gpus": 0.5}, {}, "would put engines on one GPU"),
        ({"workers": 4, "gpus": 0.5}, {"count": 4}, {}, "would put two workers on one GPU"),
        ({"workers": 2, "gpus": 0.5}, {"count": 4, "gpus": 0.5}, {}, "2 would get no weights"),
        ({"workers": (2, 4), "gpus": 0.5}, {"count": 4, "gpus": 0.5}, {}, "2 would get no weights"),
        ({"gpus": 0.5}, {"gpus": 0.5}, {"sync": {"transport": "nccl"}}, "set sync.transport=ipc"),
    ],
)
def test_shares_that_cannot_be_placed_are_refused_in_one_sentence(learner, engine, branches, said):
    config = run(learner, engine, **branches)
    (sentence,) = share_problems(config.hardware, "cuda")
    assert said in sentence
    with pytest.raises(ConfigError, match=said):
        check_shares(config.hardware, "cuda")
