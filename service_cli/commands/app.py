"""The root of ``sandbox-service``: its commands and their overview."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import typer

from local_processes.full_disks import explaining_full_disks
from sandbox_plugins import remember_folder
from sandbox_service.telemetry import configure_logging

from . import (
    adapter,
    bench,
    demo,
    doctor,
    drain,
    envs,
    images,
    keys,
    mcp,
    node,
    node_env,
    plugins,
    run,
    serve,
    status,
    trajectories,
)
from .terminal import fail

_HELP = """Serve episodes of real tasks in isolated sandboxes, and inspect them.

Start with these, in two terminals:

    sandbox-service serve

    sandbox-service run --env code --split easy --concurrency 32 --show

Then explore:

    sandbox-service envs

    sandbox-service status

    sandbox-service trajectories --help

Before a service goes to another machine, and when something fails:

    sandbox-service doctor

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
"""


def build_cli() -> typer.Typer:
    """Build the commands; importing this module has no effect."""
    cli = typer.Typer(
        name="sandbox-service",
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_show_locals=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    cli.command("serve")(serve.serve)
    cli.command("status")(status.status)
    cli.command("run")(run.run)
    cli.command("demo")(demo.demo)
    cli.command("doctor")(doctor.doctor)
    cli.command("drain")(drain.drain)
    cli.command("bench")(bench.bench)
    cli.command("node")(node.node)
    cli.command(node_env.NAME)(node_env.node_env)
    cli.command("plugins")(plugins.plugins)
    cli.command("mcp")(mcp.mcp)
    cli.add_typer(adapter.build(), name="adapter")
    cli.add_typer(envs.build(), name="envs")
    cli.add_typer(images.build(), name="images")
    cli.add_typer(keys.build(), name="keys")
    cli.add_typer(trajectories.build(), name="trajectories")
    return cli


def main() -> None:
    """Run the command line; warnings of the service's parts go to standard error."""
    configure_logging("warning")
    remember_folder()
    # Around all of it, since wrong usage ends the program before the command begins.
    ending = node_env.failing_in_the_shell() if sys.argv[1:2] == [node_env.NAME] else nullcontext()
    with ending, explaining_full_disks(lambda sentence: fail(sentence).exit_code):
        build_cli()()
