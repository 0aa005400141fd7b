"""The phases of a step, whose seconds are metrics such as ``time/update``."""

from __future__ import annotations

STEP_PHASES = ("take", "annotate", "update", "checkpoint", "sync")
"""In their order. They follow each other; ``time/sampling`` and the like are means of concurrent episodes."""
EVALUATION = "evaluate"
"""The phase between steps."""
