"""What a tenant may have of this node, asked before it gets a new instance.

An episode that has begun is never cut off by a quota: its steps and its record go on to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import CapacityError

if TYPE_CHECKING:
    from .parts import Parts


_RELEASE_WAIT_S = 5.0
_LONGEST_WAIT_S = 3600.0
_MIB = 1024 * 1024


def check_quota(parts: Parts, tenant: str, environment: str, wanted: int) -> None:
    """Raise CapacityError(QUOTA_EXCEEDED) when the tenant may not have so many more instances."""
    config, have = parts.config, parts.table.count(tenant)
    limit = config.pool_of(environment).max_instances_per_tenant
    if limit is not None and have + wanted > limit:
        raise _too_many(have, limit, "pool.max_instances_per_tenant")
    if config.tenants == 1:
        return
    if have + wanted > config.quota.max_instances:
        raise _too_many(have, config.quota.max_instances, "quota.max_instances")
    now = parts.clock.monotonic()
    most = config.quota.stored_mib_per_day
    if parts.journal.recorded.recorded(tenant, now) >= most * _MIB:
        wait = min(_LONGEST_WAIT_S, parts.journal.recorded.frees_in_s(tenant, now))
        detail = (
            f"{most} MiB of the tenant's requests and results were recorded within 24 hours, which is what "
            "quota.stored_mib_per_day allows; live instances go on, new ones have to wait"
        )
        raise CapacityError(detail, wait, ErrorCode.QUOTA_EXCEEDED)


def _too_many(have: int, limit: int, setting: str) -> CapacityError:
    detail = f"the tenant has {have} of {limit} live instances ({setting}); release some"
    return CapacityError(detail, _RELEASE_WAIT_S, ErrorCode.QUOTA_EXCEEDED)
