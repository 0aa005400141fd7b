"""Sizes as people write them, and what the kernel says of processors and GPUs."""

import pytest

from trainer.capacity.machine import bytes_of, multiplies_in_bfloat16, nvidia_driver
from trainer.errors import ConfigError


@pytest.mark.parametrize(("text", "size"), [("80GiB", 80 << 30), ("80 GB", 80 * 10**9), ("1.5tib", 3 << 39)])
def test_sizes_are_read(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["eighty", "80", "80 "])
def test_a_size_that_is_none_or_has_no_unit_is_refused(text):
    with pytest.raises(ConfigError, match="is not a size; write it as 80GiB"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16\n", True),
        ("flags\t\t: fpu avx2 amx_bf16 amx_tile\n", True),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("flags\t\t: fpu avx2 avx512f\n", False),
        ("model name\t: unknown\n", None),
    ],
)
def test_the_kernel_lists_what_processors_multiply_in(tmp_path, lines, found):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{lines}")
    assert multiplies_in_bfloat16(tmp_path / "cpuinfo") is found
    assert multiplies_in_bfloat16(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
            "550.54.15",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "580.65.06"),
        ("something else", None),
    ],
)
def test_the_driver_is_what_the_kernel_says(tmp_path, line, version):
    (tmp_path / "version").write_text(line + "\nGCC version: 12.2.0\n")
    assert nvidia_driver(tmp_path / "version") == version
    assert nvidia_driver(tmp_path / "missing") is None
