"""Processes of a part of the service, such as its supervisor."""

from service_cli.bench.processes import parts_of


def processes_of(part: str) -> list[int]:
    """Return the ids of a part's processes."""
    return [process.pid for process, found in parts_of() if found == part]
