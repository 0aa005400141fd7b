"""``sandbox-service node-env``: the environment of a node of a Ray cluster that ``serve deploy`` uses."""

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
            file_okay=False, resolve_path=True, help="Where the files go that the variables name."
        ),
    ],
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    one_node: Annotated[
        bool, typer.Option("--one-node", help="Open none of Ray's ports to other machines.")
    ] = False,
) -> None:
    """Print the variables that a node's processes need, as shell lines, and write the files they name.

    For clusters of your own: `ray start` and `serve deploy` run in this environment, on every node. It makes
    Ray demand the token in FOLDER/token, which is made when it is missing, so that all nodes have the same
    one when it is copied first, and makes HAProxy bound clients and answer with problems, as `serve` does.
    The settings are those of deadline, pool and server.haproxy.

    Example:

        eval "$(sandbox-service node-env /var/lib/sandbox-service/node)"
    """
    with explained():
        resolved = read_config(config, overrides or [])
        if resolved.server.haproxy and find_haproxy() is None:
            notes_line("without HAProxy, which is not installed: slow clients are not bounded")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            variables = node_variables(resolved, folder, on_loopback=one_node)
        except OSError as error:
            raise fail(f"{folder} cannot be written: {error.strerror}") from error
    for name, value in variables.items():
        results().print(f"export {name}={shlex.quote(value)}", soft_wrap=True, markup=False)
