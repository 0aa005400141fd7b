"""The command of a process that runs agents, in this environment or in another one."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

_LENT = ("local_processes", "sandbox_client", "sandbox_contract", "trainer")
"""Packages that a host in another environment gets from this one."""
_HOST = "trainer.agents.host"
_START = """
import importlib.util, json, os, runpy, sys
folders, descriptor = json.loads(sys.argv[1]), int(sys.argv[2])
for name, folder in folders.items():
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
try:
    for name in folders:
        sys.modules[name].__spec__.loader.exec_module(sys.modules[name])
    import trainer.agents.function
    import trainer.agents.host_messages
    import psutil
except ImportError as error:
    report = {"kind": "unusable", "error": f"agent.python: {sys.executable} lacks a package: {error}"}
    os.write(descriptor, json.dumps(report).encode() + b"\\n")
    sys.exit(1)
sys.argv[1:] = [str(descriptor)]
runpy.run_module("trainer.agents.host", run_name="__main__", alter_sys=True)
"""
"""Lends packages one by one: their folder in the path would lend all packages beside them as well."""


def host_command(python: Path | None) -> tuple[list[str], str]:
    """Return the words that start a host, but for its descriptor, and the ``PYTHONPATH`` that it needs.

    ``python`` runs it; by default what runs this process.
    """
    if python is None:
        # Ray extends the path of its workers without the environment.
        return [sys.executable, "-m", _HOST], os.pathsep.join(filter(None, sys.path))
    folders = {name: _folder(name) for name in _LENT}
    return [str(python), "-c", _START, json.dumps(folders)], ""


def _folder(name: str) -> str:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(next(iter(spec.submodule_search_locations))).absolute())
