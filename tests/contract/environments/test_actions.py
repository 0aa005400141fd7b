"""The checks of ``sandbox_conformance.checks.test_actions``, for the environments of this repository."""

from sandbox_conformance.checks.test_actions import *  # noqa: F403 - pytest collects what is here
