import pytest

from trainer.config import RunConfig
from trainer.sync.agreement import tolerance_of


@pytest.mark.parametrize(
    ("device", "branches", "tolerance"),
    [
        ("cpu", {}, 1e-4),
        ("cpu", {"learner": {"gpus": 1}}, 0.1),
        ("cpu", {"learner": {"gpus": 1, "dtype": "float32"}}, 1e-4),
        ("cpu", {"learner": {"dtype": "bfloat16"}}, 0.1),
        ("cuda", {"engine": {"dtype": "float32"}, "learner": {"gpus": 1}}, 0.1),
        ("cuda", {}, 0.1),
        ("cpu", {"sync": {"tolerance": 0.5}}, 0.5),
    ],
)
def test_agreement_is_close_where_both_sides_compute_exactly(device, branches, tolerance):
    assert tolerance_of(RunConfig.model_validate(branches), device) == tolerance
