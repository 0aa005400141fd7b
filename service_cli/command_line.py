"""Entry points of the two commands; without their extra they report what to install.

sandbox-service    needs the extra ``service``
sandbox-trainer    needs the extra ``trainer``
"""

from __future__ import annotations

import logging
import sys
import traceback
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
    application = None
    try:
        application = import_module(module)
        application.main()
    except ModuleNotFoundError as error:
        # A command imports more while it runs; what a plugin lacks is another matter.
        own = application is None or _importer(error) in _PRODUCT
        if error.name is None or _top(error.name) in _PRODUCT or not own:
            raise
        sys.stderr.write(
            f"error: {command} needs the package {error.name!r}, which is not installed; "
            f"install it with: pip install 'training-sandbox[{extra}]'\n"
        )
        sys.exit(_WRONG)


def _importer(error: ModuleNotFoundError) -> str:
    """Return the top-level package of the module that imports what is not found."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return _top(str(frame.f_globals.get("__name__")))


def _top(module: str) -> str:
    return module.partition(".")[0]
