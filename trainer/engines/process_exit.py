"""The end of an engine's process: the model's own processes end first, and give the GPU's memory back."""

from __future__ import annotations

import multiprocessing
import os
from typing import NoReturn

EXIT_STATUS = 70
PATIENCE_S = 5.0


def end_process() -> NoReturn:
    """End the children, and then this process at once."""
    try:
        end_children()
    finally:
        os._exit(EXIT_STATUS)


def end_children() -> None:
    """Kill the processes that vLLM started here, and wait until they are gone.

    Ray starts the next engine on the same GPU, whose memory is free only then. Their own children end with
    them (``trainer.weight_sync.vllm_worker``).
    """
    children = multiprocessing.active_children()
    for child in children:
        child.kill()
    for child in children:
        child.join(PATIENCE_S)
