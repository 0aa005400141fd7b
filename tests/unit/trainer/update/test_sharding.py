import pytest

from tests.harness.gradient_buckets import held_gradients
from tests.harness.learning import small_model


@pytest.mark.timeout(300)
def test_a_copy_of_the_model_has_one_copy_of_its_gradients_in_all_passes_of_all_stages(tmp_path):
    small_model(tmp_path / "model")
    for held in held_gradients(tmp_path):
        assert held["passes"] >= 6
        assert held["others"] == 0
        assert held["bytes"] == held["expected"]
