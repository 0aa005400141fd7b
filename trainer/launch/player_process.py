"""Run ``sandbox-service run`` as a process that releases its instances however it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile

from local_processes.child_process import end_process
from local_processes.prctl import end_with_parent

_RELEASE_S = 60.0
"""Time for a player that is stopped to release its instances, which the service would otherwise keep until
their leases end.
"""


@dataclass(frozen=True, slots=True)
class PlayerEnd:
    """The end of a player."""

    code: int
    output: str
    errors: str


def run_player(command: Sequence[str], variables: Mapping[str, str], timeout_s: float) -> PlayerEnd:
    """Run a player to its end; at the deadline or Ctrl-C it is asked to end.

    Raises subprocess.TimeoutExpired at the deadline.
    """
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,  # Ctrl-C goes to the trainer only: a second signal would cut releases off
            preexec_fn=end_with_parent,  # PDEATHSIG: a killed trainer leaves no player behind
        )
        try:
            code = process.wait(timeout_s)
        finally:
            end_process(process, _RELEASE_S)
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    return PlayerEnd(code, *said)
