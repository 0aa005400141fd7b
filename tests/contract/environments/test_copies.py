"""The checks of ``sandbox_conformance.checks.test_copies``, for the environments of this repository."""

from sandbox_conformance.checks.test_copies import *  # noqa: F403 - pytest collects what is here
