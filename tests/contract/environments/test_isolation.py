"""The checks of ``sandbox_conformance.checks.test_isolation``, for the environments of this repository."""

from sandbox_conformance.checks.test_isolation import *  # noqa: F403 - pytest collects what is here
