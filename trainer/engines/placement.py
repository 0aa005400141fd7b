"""Where Ray places a run's engines, and the learner's workers where they share GPUs.

Separate GPUs: each engine has a bundle of a placement group, and the learner's workers take what is left.
Shared GPUs: one placement group has a bundle for each GPU, which is whole, so that no two bundles are on one
GPU. Engine *i* takes its share of bundle *i*, or of as many bundles as it has tensor-parallel workers, and
the learner's worker *i* takes its share of bundle *i* (``trainer.launch.shared_workers``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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

from trainer.errors import EngineError
from trainer.weight_sync.choice import shares_gpus

from .gpu_shares import check_shares

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

    from trainer.config.engine import EngineConfig
    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


@dataclass(frozen=True, slots=True)
class Reservation:
    """What Ray has set aside for a run."""

    group: PlacementGroup
    engine: Mapping[str, float]
    """What each engine's actor takes of its first bundle."""
    bundles: tuple[tuple[int, ...], ...]
    """Those of each engine: several where it has tensor-parallel workers on shared GPUs."""
    shared: bool
    """The learner's workers have their shares in the same bundles."""

    def options(self, index: int) -> dict[str, Any]:
        """Of the actor of an engine: how Ray is to schedule it."""
        place = PlacementGroupSchedulingStrategy(self.group, self.bundles[index][0])
        return actor_options(self.engine) | {"scheduling_strategy": place}

    def neighbours(self, index: int) -> Neighbours | None:
        """What an engine on several shared GPUs needs to take the others; None for all others."""
        further = self.bundles[index][1:]
        return Neighbours(further, self.engine["GPU"]) if further else None

    def release(self) -> None:
        """Give it back, which ends whoever is there."""
        remove_placement_group(self.group)


def engine_resources(engine: EngineConfig, device: Device) -> dict[str, float]:
    """What Ray sets aside for one engine whose GPUs are its own; they are on one machine."""
    resources = {"CPU": float(engine.cpus)}
    if device == "cuda":
        resources["GPU"] = (1.0 if engine.gpus is None else float(engine.gpus)) * engine.tensor_parallel
    return _positive(resources)


def actor_options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Of an actor that takes them."""
    return {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0)}


def reserve(hardware: Hardware, device: Device, *, learner: bool = True) -> Reservation:
    """Set aside what engines need, and with shared GPUs what the learner needs beside them.

    Args:
        hardware: Settings of learner and engines.
        device: What engines run on.
        learner: False for engines alone, such as those of an evaluation.

    Raises:
        ConfigError: shares that cannot be placed.
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
    learner, engine = hardware.learner, hardware.engine
    parts = engine.tensor_parallel
    taken = tuple(tuple(range(n * parts, (n + 1) * parts)) for n in range(engine.count))
    first = {bundles[0] for bundles in taken}
    gpus = max(workers, engine.count * parts)
    wanted = [
        _positive(
            {
                "GPU": 1.0,
                "CPU": learner.cpus * (index < workers) + engine.cpus * (index in first),
            }
        )
        for index in range(gpus)
    ]
    what = f"{gpus} GPUs that learner and engines share"
    group = _ready(wanted, what, engine.start_timeout_s)
    nodes = placement_group_table(group)["bundles_to_node_id"]
    for index, bundles in enumerate(taken):
        if len({nodes[bundle] for bundle in bundles}) > 1:
            remove_placement_group(group)
            raise EngineError(
                f"the {parts} GPUs of engine {index} would be on different machines: free {parts} GPUs on "
                "one of them, or lower engine.tensor_parallel"
            )
    resources = _positive({"CPU": float(engine.cpus), "GPU": float(engine.gpus or 0)})
    return Reservation(group, resources, taken, shared=True)


def _positive(resources: dict[str, float]) -> dict[str, float]:
    """Ray refuses a bundle that asks for nothing of a resource."""
    return {name: amount for name, amount in resources.items() if amount > 0}


def _ready(bundles: list[dict[str, float]], what: str, timeout_s: float) -> PlacementGroup:
    group: PlacementGroup = placement_group(bundles, strategy="PACK")
    try:
        ray.get(group.ready(), timeout=timeout_s)
    except GetTimeoutError as error:
        remove_placement_group(group)
        raise EngineError(f"there is no room in the cluster for {what}") from error
    return group


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other bundles of a tensor-parallel engine on shared GPUs, seen from the engine's own actor.

    Ray gives an actor a share of one GPU. For each of the others the engine starts an actor that holds the
    share and does nothing else; it ends with the engine, whose processes then see all of the GPUs.
    """

    bundles: tuple[int, ...]
    share: float

    def take(self) -> list[Any]:
        """Take the shares and make the GPUs visible; whoever calls it keeps what is returned.

        It must come before anything starts CUDA, which looks at the visible GPUs once.
        """
        group = get_current_placement_group()
        if group is None:
            raise EngineError("an engine on several shared GPUs is started in its reservation, by `reserve`")
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
        """Which it is."""
        return own_gpus()


def own_gpus() -> tuple[str, ...]:
    """GPUs that Ray gave to this actor, as ``CUDA_VISIBLE_DEVICES`` names them."""
    return tuple(ray.get_runtime_context().get_accelerator_ids().get("GPU", ()))
