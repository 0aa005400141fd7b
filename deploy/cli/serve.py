"""``sandbox-service serve``: the service in the foreground, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.config_file import read_config
from deploy.serve_app import run_service

from .options import ConfigOption, OverridesArgument
from .terminal import explained, notes, results

if TYPE_CHECKING:
    from types import FrameType

    from sandbox_service.config import ServiceConfig

__all__ = ["serve"]


def serve(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; the same as server.host=...")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; the same as server.port=...")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen beyond loopback without API keys. Anyone can run code here."),
    ] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the resolved configuration as JSON, and stop.")
    ] = False,
) -> None:
    """Start the service and keep it in the foreground; Ctrl-C stops it and everything it started.

    Docker sandboxes are used where an engine answers; elsewhere process sandboxes, which are no security
    boundary and serve this machine only.

    Examples:

        sandbox-service serve

        sandbox-service serve --port 9000 sandbox.kind=process pool.max_boxes=4

        sandbox-service serve --config service.toml --print-config

        sandbox-service serve --host 0.0.0.0 --config keys.toml    (see: sandbox-service keys new)
    """
    words = list(overrides or [])
    words += [f"server.host='{host}'"] if host is not None else []
    words += [f"server.port={port}"] if port is not None else []
    words += ["server.insecure=true"] if insecure else []
    with explained():
        resolved = read_config(config, words)
        if print_config:
            results().print_json(resolved.model_dump_json())
            return
        _serve(resolved)


def _serve(config: ServiceConfig) -> None:
    stop = threading.Event()

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    notes().print("starting (Ctrl-C stops) ...")
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A start may be interrupted at once; later the first signal stops in order, the second one right away.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with run_service(config) as service:
            for number in previous:
                signal.signal(number, interrupted)
            results().print(f"ready: {service.url}  ({service.sandbox_kind} sandboxes)")
            results().print(
                f"try:   sandbox-service run --server {service.url} --env code --split easy --show"
            )
            while not stop.wait(3600.0):
                pass
            notes().print("stopping ...")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    notes().print("stopped")
