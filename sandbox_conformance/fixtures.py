"""Fixtures of the checks: each environment is served once for all checks of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest_asyncio

from .serving import serve
from .subject import Subject

if TYPE_CHECKING:
    import pytest

    from sandbox_service.environments.base import Catalog


@dataclass(frozen=True, slots=True)
class Case:
    """An environment to check on one kind of sandbox."""

    catalog: Catalog
    kind: str
    """``process``, ``docker`` or ``gvisor``."""

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.catalog.spec.name


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """Serve the environment of a ``Case``, which the suite gives as the parameter."""
    case: Case = request.param
    async with serve(case.catalog, case.kind) as service:
        (described,) = (await service.client.environments()).environments
        yield Subject(case.name, case.kind, case.catalog, described, service)


@pytest_asyncio.fixture(loop_scope="session")
async def subject(served: Subject) -> AsyncIterator[Subject]:
    """Give the environment to one check, which harms no later one by what it leaves."""
    yield served
    await served.service.release_all()
