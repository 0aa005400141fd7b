"""Puts the project root on the import path, so that tests share ``tests.fakes``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
