"""Generate API keys; the service stores only their SHA-256."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from sandbox_service.config import Rights

_PREFIX = "sbx_"
_RANDOM_BYTES = 32
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, and its entry in the service's configuration."""

    secret: str
    """The key for the client; it is not stored anywhere."""
    digest: str
    """SHA-256 for ``server.api_keys``."""
    tenant: str
    """The tenant that the key belongs to."""
    rights: Rights = Rights.WRITE

    def entry(self) -> str:
        """Return its line under ``[server.api_keys]``, which a configuration file may have once."""
        owner = f'"{self.tenant}"'
        if self.rights is not Rights.WRITE:
            owner = f'{{tenant = {owner}, rights = "{self.rights}"}}'
        return f'"{self.digest}" = {owner}'


def new_api_key(tenant: str, rights: Rights = Rights.WRITE) -> ApiKey:
    """Generate a random 256-bit key for a tenant. Raises ValueError for an invalid name."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError(
            f"invalid tenant {tenant!r}: expected 1 to 64 letters, digits and '._@-', such as team-a"
        )
    secret = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return ApiKey(secret, hashlib.sha256(secret.encode()).hexdigest(), tenant, rights)
