from trainer.config import RunConfig
from trainer.sweep.resources import trial_resources


def test_a_trial_reserves_enough_for_the_largest_of_the_sweep() -> None:
    sizes = [
        {"learner": {"workers": 4, "gpus": 1}, "engine": {"count": 1}},
        {"learner": {"workers": 1, "gpus": 1}, "engine": {"count": 8}},
    ]
    small, large = (trial_resources([RunConfig.model_validate(size).hardware]) for size in sizes)
    assert (small.gpus, large.gpus) == (5.0, 9.0)
    both = trial_resources([RunConfig.model_validate(size).hardware for size in sizes])
    assert (both.cpus, both.gpus) == (max(small.cpus, large.cpus), 9.0)
