"""Catalogs over the echo world: one of pure data, and one that claims to run agent code.

``diary`` has everything that ``echo`` has not: files, agent code, one instance a box, no determinism.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import DuePart, GradingPart, TaskImage, VerifierBox
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.errors import ServiceError
from sandbox_service.runner.world import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from sandbox_service.environments.base import Catalog, EnvironmentSpec, TaskPayload

__all__ = ["AnthologyCatalog", "EssayCatalog", "FakeCatalog", "FakeRegistry", "fake_registry"]


class FakeCatalog(EchoCatalog):
    """The tasks of echo under another specification."""

    def __init__(self, spec: EnvironmentSpec, evaluate_s: float = 0.0) -> None:
        self.spec = spec  # type: ignore[misc]
        self._evaluate_s = evaluate_s

    def payload(self, task_id: str) -> TaskPayload:
        return replace(super().payload(task_id), evaluate_s=self._evaluate_s)


class EssayCatalog(FakeCatalog):
    """Tasks that are graded in the boxes of a verifier."""

    def payload(self, task_id: str) -> TaskPayload:
        parts = (GradingPart({}, 1.0, verifier_box(task_id, "marks")),)
        return replace(super().payload(task_id), task={"kind": "essay"}, grading={}, parts=parts)


class AnthologyCatalog(FakeCatalog):
    """Tasks that are graded in three parts; the second has no box of its own."""

    def payload(self, task_id: str) -> TaskPayload:
        boxes = (verifier_box(task_id, "marks"), None, verifier_box(task_id, "style"))
        numbered = enumerate(zip(boxes, (3.0, 1.0, 1.0), strict=True))
        parts = tuple(GradingPart({"marked": number}, share, box) for number, (box, share) in numbered)
        made = replace(super().payload(task_id), task={"kind": "anthology"}, grading={}, parts=parts)
        return replace(made, combine=combine_essays)


def combine_essays(
    params: dict[str, JsonValue], reached: int, results: Sequence[dict[str, Any]]
) -> DuePart | Verdict:
    """Want all parts liked."""
    liked = all("well" in result["text"] for result in results)
    if liked and len(results) < reached:
        return DuePart(len(results), {"number": len(results)})
    return Verdict(float(liked), liked, {"results": list(results)})


def verifier_box(task_id: str, name: str) -> VerifierBox:
    """Return a box of a verifier with an image of this name."""
    image = TaskImage(task_id, name, None, f"FROM {name}", None, 600.0, f"FROM {name}", holds_tests=True)
    return VerifierBox(image, {"kind": "verifier"})


class FakeRegistry:
    """Keeps ``Registry``, and lets tests choose the catalogs."""

    def __init__(self, catalogs: Mapping[str, Catalog], max_evaluate_s: float = 0.0) -> None:
        self.catalogs = MappingProxyType(dict(catalogs))
        self.max_evaluate_s = max_evaluate_s

    def catalog(self, name: str) -> Catalog:
        try:
            return self.catalogs[name]
        except KeyError:
            raise ServiceError(ErrorCode.UNKNOWN_ENVIRONMENT, f"no environment {name!r}") from None


def fake_registry() -> FakeRegistry:
    """``echo`` as it is; ``diary`` with agent code; ``sheet``, deterministic, one instance a box, no fork.

    ``ledger`` is ``sheet`` with agent code. Tasks of ``essay`` are graded in boxes of a verifier, those of
    ``anthology`` in parts. Tasks of ``exam`` ask for 900 s of grading, all that the registry allows;
    ``thesis`` asks for more.
    """
    echo = EchoCatalog()
    diary = replace(
        echo.spec,
        name="diary",
        agent_code=True,
        many_per_worker=False,
        deterministic=False,
        instances_per_box=1,
        runs_agents=True,
    )
    sheet = replace(
        echo.spec, name="sheet", many_per_worker=False, fork=False, deterministic=True, instances_per_box=1
    )
    catalogs = {
        "echo": echo,
        "diary": FakeCatalog(diary),
        "sheet": FakeCatalog(sheet),
        "ledger": FakeCatalog(replace(sheet, name="ledger", agent_code=True, runs_agents=True)),
        "essay": EssayCatalog(replace(diary, name="essay", world_module="tests.fakes.essay_world")),
        "anthology": AnthologyCatalog(
            replace(diary, name="anthology", world_module="tests.fakes.essay_world")
        ),
        "exam": FakeCatalog(replace(echo.spec, name="exam"), evaluate_s=900.0),
        "thesis": FakeCatalog(replace(echo.spec, name="thesis"), evaluate_s=901.0),
    }
    return FakeRegistry(catalogs, max_evaluate_s=900.0)
