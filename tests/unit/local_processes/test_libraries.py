"""Shared libraries are found as the dynamic loader finds them."""

from local_processes.libraries import is_loadable


def test_a_library_is_loadable_if_the_loader_finds_it():
    assert is_loadable("libc.so.6")
    assert not is_loadable("libabsent.so.1")
