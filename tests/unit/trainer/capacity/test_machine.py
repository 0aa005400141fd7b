"""Sizes of memory and disk are read as people write them."""

import pytest

from trainer.capacity.machine import bytes_of
from trainer.errors import ConfigError


@pytest.mark.parametrize(("text", "size"), [("80GiB", 80 << 30), ("80 GB", 80 * 10**9), ("1.5tib", 3 << 39)])
def test_sizes_are_read(text, size):
    assert bytes_of(text) == size


def test_a_size_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="is not a size; write it as 80GiB"):
        bytes_of("eighty")
