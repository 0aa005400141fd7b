"""API keys: made here, shown once, and kept by the service as their SHA-256 only."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

_PREFIX = "sbx_"
_RANDOM_BYTES = 32
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and what the service's configuration needs of it."""

    secret: str
    """Goes to the client; nobody can show it again."""
    digest: str
    """Goes into ``server.api_keys``."""
    tenant: str
    """Who it belongs to."""

    def toml(self) -> str:
        """The lines of a configuration file."""
        return f'[server.api_keys]\n"{self.digest}" = "{self.tenant}"'


def new_api_key(tenant: str) -> ApiKey:
    """A random key of 256 bits for a tenant."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError(
            f"{tenant!r} is not a tenant's name: 1 to 64 letters, digits and '._@-', such as team-a"
        )
    secret = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return ApiKey(secret, hashlib.sha256(secret.encode()).hexdigest(), tenant)
