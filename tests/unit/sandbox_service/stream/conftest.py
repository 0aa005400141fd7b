from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def socket_path():
    """A path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="stream-") as folder:
        yield Path(folder) / "s"
