"""A Ray cluster on this machine for the tests of one module, in a folder of its own."""

import contextlib
import tempfile

import pytest
import ray


@contextlib.contextmanager
def local_ray(variables=None, object_store_mib=80, **options):
    """Be connected while the block runs; ``options`` are those of ``ray.init``."""
    with (
        pytest.MonkeyPatch.context() as environment,
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        defaults = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        for name, value in {**defaults, **(variables or {})}.items():
            environment.setenv(name, value)
        try:
            ray.init(
                include_dashboard=False,
                object_store_memory=object_store_mib << 20,
                log_to_driver=False,
                configure_logging=False,
                _temp_dir=folder,
                **options,
            )
            yield
        finally:
            ray.shutdown()
