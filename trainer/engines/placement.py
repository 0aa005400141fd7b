"""Reserve Ray's resources for a run's engines, and for the learner's workers where they share GPUs.

Separate GPUs: each engine has a bundle of a placement group, and the learner's workers use other resources.
Shared GPUs: one placement group has a bundle for each whole GPU (``shared_bundles``). An engine uses its
share of one bundle, or of as many bundles of one node as it has tensor-parallel workers, and the learner's
worker *i* uses its share of bundle *i* (``trainer.launch.shared_workers``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import (
    get_current_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainer.config.nodes import part_of
from trainer.errors import EngineError
from trainer.weight_sync.choice import shares_gpus

from .gpu_shares import check_shares
from .shared_bundles import bundles_of_engines, engine_share, shared_bundles

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

    from trainer.config.engine import EngineConfig
    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


_JOIN_S = 10.0
"""Time after which a run says that no node is large enough for its engines."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Ray's resources that are reserved for a run."""

    group: PlacementGroup
    engine: Mapping[str, float]
    """Resources of each engine's actor in its first bundle."""
    bundles: tuple[tuple[int, ...], ...]
    """Bundles of each engine: several where it has tensor-parallel workers on shared GPUs."""
    shared: bool
    """Whether the learner's workers have their shares in the same bundles."""

    def options(self, index: int) -> dict[str, Any]:
        """Return the scheduling options of an engine's actor."""
        place = PlacementGroupSchedulingStrategy(self.group, self.bundles[index][0])
        return actor_options(self.engine) | {"scheduling_strategy": place}

    def neighbours(self, index: int) -> Neighbours | None:
        """Return the further bundles of an engine on several shared GPUs; None for other engines."""
        further = self.bundles[index][1:]
        return Neighbours(further, self.engine["GPU"]) if further else None

    def release(self) -> None:
        """Remove the placement group, which kills the actors in it."""
        remove_placement_group(self.group)


def engine_resources(engine: EngineConfig, device: Device) -> dict[str, float]:
    """Return the resources of one engine with GPUs of its own, which are on one machine."""
    resources = {"CPU": float(engine.cpus), **part_of(engine.node_resource)}
    if device == "cuda":
        resources["GPU"] = (1.0 if engine.gpus is None else float(engine.gpus)) * engine.tensor_parallel
    return _positive(resources)


def actor_options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return the options of an actor with these resources."""
    others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
    return {
        "num_cpus": resources.get("CPU", 0),
        "num_gpus": resources.get("GPU", 0),
        "resources": others,
    }


def reserve(hardware: Hardware, device: Device, *, learner: bool = True) -> Reservation:
    """Reserve the resources of the engines, and of the learner where they share GPUs.

    Args:
        hardware: Settings of learner and engines.
        device: What engines run on.
        learner: False for engines alone, such as those of an evaluation.

    Raises:
        ConfigError: the shares cannot be placed.
        EngineError: the cluster has no room within ``engine.start_timeout_s``.
    """
    check_shares(hardware, device)
    if shares_gpus(hardware, device):
        return _shared(hardware, hardware.learner.most_workers if learner else 0)
    engine, resources = hardware.engine, engine_resources(hardware.engine, device)
    what = f"{engine.count} engines of {resources}"
    group = _ready([resources] * engine.count, what, engine.start_timeout_s)
    return Reservation(group, resources, tuple((index,) for index in range(engine.count)), shared=False)


def _shared(hardware: Hardware, workers: int) -> Reservation:
    engine, bundles = hardware.engine, shared_bundles(hardware, workers)
    what = f"{len(bundles)} GPUs that learner and engines share"
    group = _ready(bundles, what, engine.start_timeout_s)
    try:
        # PACK prefers one machine, and does not promise it.
        taken = bundles_of_engines(engine, placement_group_table(group)["bundles_to_node_id"])
    except EngineError:
        remove_placement_group(group)
        raise
    return Reservation(group, engine_share(engine), taken, shared=True)


def _positive(resources: dict[str, float]) -> dict[str, float]:
    """Leave out resources of amount 0, which Ray refuses in a bundle."""
    return {name: amount for name, amount in resources.items() if amount > 0}


def missing_now(bundles: Sequence[Mapping[str, float]]) -> str | None:
    """Return what no node of the connected cluster has, as ``missing_node`` says it."""
    nodes: list[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return missing_node(bundles, [node["Resources"] for node in nodes if node["Alive"]])


def _ready(bundles: list[dict[str, float]], what: str, timeout_s: float) -> PlacementGroup:
    group: PlacementGroup = placement_group(bundles, strategy="PACK")
    ready = group.ready()
    done, _ = ray.wait([ready], timeout=min(_JOIN_S, timeout_s))
    missing = missing_now(bundles)
    if not done and missing is not None:
        # Not an error yet: a node may be starting, by an autoscaler or by hand.
        logger.warning("%s; waiting up to %g s for one (engine.start_timeout_s)", missing, timeout_s)
    try:
        ray.get(ready, timeout=max(0.0, timeout_s - _JOIN_S))
    except GetTimeoutError as error:
        # Otherwise it would take the resources as soon as they are free.
        remove_placement_group(group)
        missing = missing_now(bundles)  # others may have joined meanwhile
        reason = "free resources" if missing is None else f"{missing}; start one"
        raise EngineError(
            f"the cluster has no room for {what}: {reason}, or lower engine.count or their size"
        ) from error
    return group


def missing_node(bundles: Sequence[Mapping[str, float]], nodes: Sequence[Mapping[str, float]]) -> str | None:
    """Return a sentence on the first bundle that no node could hold were it empty; None if there is none.

    ``nodes`` are the resources of each node, by Ray's names.
    """
    for bundle in bundles:
        if not any(all(node.get(name, 0.0) >= amount for name, amount in bundle.items()) for node in nodes):
            most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in bundle}
            return f"no node of the cluster has {_listed(bundle)} (the most on any node: {_listed(most)})"
    return None


def _listed(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(resources.items()))


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The further bundles of a tensor-parallel engine on shared GPUs, as its actor uses them.

    Ray gives an actor a share of one GPU only. The engine therefore starts an idle actor for each further GPU
    that holds the share, and makes the GPUs visible to its processes. The idle actors end with the engine.
    """

    bundles: tuple[int, ...]
    share: float

    def take(self) -> list[Any]:
        """Take the shares and make the GPUs visible. The caller keeps the result for as long as it uses them.

        Must be called before CUDA starts, which reads the visible GPUs once.
        """
        group = get_current_placement_group()
        if group is None:
            raise EngineError(
                "an engine on several shared GPUs must be started in the placement group of `reserve`"
            )
        remote: Any = ray.remote(num_cpus=0, num_gpus=self.share)(_Holder)
        holders = [
            remote.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle)).remote()
            for bundle in self.bundles
        ]
        own = own_gpus()
        others = [gpu for found in ray.get([holder.gpus.remote() for holder in holders]) for gpu in found]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join((*own, *others))
        return holders


class _Holder:
    """Holds a share of a GPU."""

    def gpus(self) -> tuple[str, ...]:
        """Return the GPU."""
        return own_gpus()


def own_gpus() -> tuple[str, ...]:
    """Return the GPUs that Ray gave to this actor, as in ``CUDA_VISIBLE_DEVICES``."""
    return tuple(ray.get_runtime_context().get_accelerator_ids().get("GPU", ()))
