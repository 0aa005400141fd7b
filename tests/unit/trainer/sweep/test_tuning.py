import pytest

from trainer.errors import ConfigError
from trainer.sweep.tuning import check_gpus


def test_a_sweep_does_not_wait_for_gpus_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="wants 9 GPUs, and Ray sees 8"):
        check_gpus(9.0, 8.0)


@pytest.mark.parametrize(("wanted", "there"), [(0.0, 0.0), (0.5, 1.0), (8.0, 8.0)])
def test_a_sweep_takes_the_gpus_that_exist(wanted: float, there: float) -> None:
    check_gpus(wanted, there)
