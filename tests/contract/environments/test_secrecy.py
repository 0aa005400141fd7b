"""The checks of ``sandbox_conformance.checks.test_secrecy``, for the environments of this repository."""

from sandbox_conformance.checks.test_secrecy import *  # noqa: F403 - pytest collects what is here
