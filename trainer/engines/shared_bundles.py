"""The bundles of a placement group whose GPUs learner and engines share, and the engines' choice of them.

Ray places the bundles, and an engine's GPUs have to be on one node. So an engine is made of bundles that are
on one node, after they are placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.config.nodes import part_of
from trainer.errors import EngineError

if TYPE_CHECKING:
    from trainer.config.engine import EngineConfig
    from trainer.config.parts import Hardware


_DIGITS = 4
"""Digits of an amount; Ray counts resources in ten thousandths."""


def shared_bundles(hardware: Hardware, workers: int) -> list[dict[str, float]]:
    """Return the resources of each bundle, one for a whole GPU.

    Engines use the first bundles, and worker *i* of the learner uses bundle *i*. A bundle asks for a whole
    GPU although learner and engine use shares of it: two bundles with shares could be placed on one GPU, and
    both engines or both workers would then be on it.
    """
    learner, engine = hardware.learner, hardware.engine
    engines = engine.count * engine.tensor_parallel
    cpus = engine_share(engine).get("CPU", 0.0)
    return [
        {
            "GPU": 1.0,
            **_amount("CPU", learner.cpus * (index < workers) + cpus * (index < engines)),
            **part_of(engine.node_resource),
            **(part_of(learner.node_resource) if index < workers else {}),
        }
        for index in range(max(workers, engines))
    ]


def engine_share(engine: EngineConfig) -> dict[str, float]:
    """Return the resources that an engine uses of each of its bundles.

    Its CPUs are divided among them: Ray places larger bundles first, and if one bundle of each engine were
    larger than the others, these bundles would share a node and the others would be on the next one.
    """
    cpus = round(engine.cpus / engine.tensor_parallel, _DIGITS)
    return {**_amount("CPU", cpus), **_amount("GPU", float(engine.gpus or 0))}


def bundles_of_engines(engine: EngineConfig, nodes: Mapping[int, str]) -> tuple[tuple[int, ...], ...]:
    """Return the bundles of each engine, which are on one node.

    Args:
        engine: settings of the engines.
        nodes: the node of each bundle.

    Raises:
        EngineError: too few of the engines' bundles are on one node.
    """
    parts = engine.tensor_parallel
    on_node: dict[str, list[int]] = {}
    for bundle in range(engine.count * parts):
        on_node.setdefault(nodes[bundle], []).append(bundle)
    found = sorted(
        tuple(bundles[first : first + parts])
        for bundles in on_node.values()
        for first in range(0, len(bundles) - parts + 1, parts)
    )
    if len(found) < engine.count:
        placed = ", ".join(str(len(bundles)) for bundles in on_node.values())
        raise EngineError(
            f"each of {engine.count} engines needs {parts} GPUs on one node, and the GPUs that Ray found for "
            f"them are divided over nodes as {placed}: free more GPUs on one node, or lower "
            "engine.tensor_parallel"
        )
    return tuple(found)


def _amount(name: str, amount: float) -> dict[str, float]:
    """Leave out an amount of 0, which Ray refuses in a bundle."""
    return {name: amount} if amount > 0 else {}
