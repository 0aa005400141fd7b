"""The checks of ``sandbox_conformance.checks.test_lives``, for the environments of this repository."""

from sandbox_conformance.checks.test_lives import *  # noqa: F403 - pytest collects what is here
