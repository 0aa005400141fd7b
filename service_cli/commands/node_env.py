"""``sandbox-service node-env``: print the environment variables of a cluster node for ``serve deploy``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from deploy.haproxy import find_haproxy
from deploy.ray_cluster import node_variables
from sandbox_service.config.reading import read_config

from .options import ConfigOption, OverridesArgument
from .terminal import explained, fail, notes_line, results


def node_env(
    folder: Annotated[
        Path,
        typer.Argument(
            file_okay=False, resolve_path=True, help="Folder for the files that the variables name."
        ),
    ],
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    one_node: Annotated[
        bool, typer.Option("--one-node", help="Open none of Ray's ports to other machines.")
    ] = False,
) -> None:
    """Print a node's environment variables as shell commands, and write the files that they name.

    Run `ray start` and `serve deploy` in this environment on every node of your own cluster. Ray then
    requires the token in FOLDER/token, which is generated if missing; copy it to all nodes first. HAProxy
    limits clients and answers errors with problem documents, as with `serve`. The settings used are those of
    deadline, pool and server.haproxy.

    Example:

        eval "$(sandbox-service node-env /var/lib/sandbox-service/node)"
    """
    with explained():
        resolved = read_config(config, overrides or [])
        if resolved.server.haproxy and find_haproxy() is None:
            notes_line("HAProxy is not installed: slow clients are not limited")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            variables = node_variables(resolved, folder, on_loopback=one_node)
        except OSError as error:
            raise fail(f"cannot write {folder}: {error.strerror}") from error
    for name, value in variables.items():
        results().print(f"export {name}={shlex.quote(value)}", soft_wrap=True, markup=False)
