"""``sandbox-service keys``: generate API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from sandbox_service.config import Rights
from service_cli.api_keys import new_api_key

from .options import JsonOption
from .terminal import WRONG, fail, notes, results, write_json


def build() -> typer.Typer:
    """Build the sub-commands."""
    cli = typer.Typer(help="Generate API keys.", no_args_is_help=True)
    cli.callback()(_keys)
    cli.command("new")(new)
    return cli


def _keys() -> None:
    """API keys identify tenants; a service that is reachable from other machines requires them."""


def new(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key belongs to.")],
    rights: Annotated[
        Rights, typer.Option(help="read: GET routes and the console only, for dashboards and visitors.")
    ] = Rights.WRITE,
    as_json: JsonOption = False,
) -> None:
    """Generate a key for a tenant, and its SHA-256 for the service's configuration.

    Examples:

        sandbox-service keys new team-a

        sandbox-service keys new team-a --rights read
    """
    try:
        key = new_api_key(tenant, rights)
    except ValueError as error:
        raise fail(str(error), WRONG) from error
    if as_json:
        write_json(
            {"key": key.secret, "sha256": key.digest, "tenant": key.tenant, "rights": key.rights.value}
        )
        return
    notes().print("The key, which is shown only once; give it to clients as SANDBOX_API_KEY:")
    results().print(key.secret, soft_wrap=True, markup=False)
    notes().print("Add this line to the file of serve --config, under [server.api_keys]:", markup=False)
    results().print(key.entry(), soft_wrap=True, markup=False)
