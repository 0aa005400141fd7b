"""The former name of ``sandbox_client``: the same classes, with a warning. The next version removes it."""

import sys
import warnings

import sandbox_client
from sandbox_client import *  # noqa: F403 - whatever the client offers
from sandbox_client import async_client, batching, episodes, errors, limits, sync_client

__all__ = list(sandbox_client.__all__)

# An import of `clients.errors` must give the module that is loaded already: an exception class of a second
# copy would not be caught.
for _module in (async_client, batching, episodes, errors, limits, sync_client):
    sys.modules[_module.__name__.replace("sandbox_client", "clients", 1)] = _module

warnings.warn(
    "the package clients is now named sandbox_client, and the next version removes the old name; "
    "write: import sandbox_client",
    DeprecationWarning,
    stacklevel=2,
)
