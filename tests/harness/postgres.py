"""A PostgreSQL server for tests: the one that ``SANDBOX_TEST_POSTGRES_URL`` names, or the script's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "postgres.sh"


def script(verb: str, **environment: str) -> str:
    """Return the output of the script. Raises CalledProcessError when it fails."""
    done = subprocess.run(
        ["sh", str(SCRIPT), verb],
        env={**os.environ, "SANDBOX_POSTGRES_INSTALL": "0", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


def unavailable(error: subprocess.CalledProcessError) -> None:
    """Skip, or fail where PostgreSQL has to be there."""
    reason = f"no PostgreSQL server: {error.stderr.strip()}"
    if os.environ.get("CI_REQUIRE_POSTGRES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
