"""Entry points of the two commands; without their extra they report what to install.

sandbox-service    needs the extra ``service``
sandbox-trainer    needs the extra ``trainer``
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module

_PRODUCT = frozenset(
    {
        "sandbox_client",
        "sandbox_contract",
        "deploy",
        "local_processes",
        "page_styles",
        "sandbox_conformance",
        "sandbox_plugins",
        "sandbox_service",
        "sandbox_settings",
        "service_cli",
        "trainer",
    }
)
_WRONG = 2


def service() -> None:
    """Run ``sandbox-service``."""
    _run("service_cli.commands.app", "sandbox-service", "service")


def trainer() -> None:
    """Run ``sandbox-trainer``."""
    # Importing torchao, which the CUDA build has, makes torch warn of what its users cannot change.
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    _run("trainer.cli.app", "sandbox-trainer", "trainer")


def _run(module: str, command: str, extra: str) -> None:
    try:
        application = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _PRODUCT:
            raise
        sys.stderr.write(
            f"error: {command} needs the package {error.name!r}, which is not installed; "
            f"install it with: pip install 'training-sandbox[{extra}]'\n"
        )
        sys.exit(_WRONG)
    application.main()
