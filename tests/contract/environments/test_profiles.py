"""The checks of ``sandbox_conformance.checks.test_profiles``, for the environments of this repository."""

from sandbox_conformance.checks.test_profiles import *  # noqa: F403 - pytest collects what is here
