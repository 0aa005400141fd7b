"""Call the batch actor from a rank, looking it up by name so that a restarted actor is found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from trainer.errors import NoProgress, TrainerError

if TYPE_CHECKING:
    from trainer.types import Batch, Objective
    from trainer.update.outline import Outline, RowTokens


_AGAIN_S = 1.0
_WAY_S = 60.0


class RemoteBatchSource:
    """Calls that survive a restart of the actor: each is idempotent, and retried until its deadline."""

    def __init__(
        self, name: str, namespace: str, timeout_s: float, longer_s: Mapping[str, float] | None = None
    ) -> None:
        """Connect lazily; ``timeout_s`` is for every call but those in ``longer_s``, which have their own
        deadlines.
        """
        self._name = name
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._longer_s = longer_s or {}
        self._version: int | None = None

    def imitation(self, step: int) -> Batch:
        return cast("Outline", self._call("imitation_outline", step)).batch()

    def take(self, step: int) -> Batch:
        return cast("Outline", self._call("outline", step)).batch()

    def tokens(self, step: int, objective: Objective, places: Sequence[int]) -> RowTokens:
        return cast("RowTokens", self._call("tokens", step, objective, list(places)))

    def weights_synced(self, version: int) -> None:
        self._version = version
        self._call("weights_synced", version)

    def evaluate(self, step: int) -> Mapping[str, float]:
        return cast("Mapping[str, float]", self._call("evaluate", step))

    def rewind(self, step: int) -> None:
        """Rewind to the checkpoint of that step."""
        self._call("rewind", step)

    def committed(self, step: int) -> None:
        """Report that the checkpoint of that step is complete."""
        self._call("committed", step)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep a step's metrics."""
        self._call("record", step, dict(metrics))

    def _call(self, method: str, *arguments: object) -> object:
        # The actor has the same deadline, and its error is more specific, so wait a little longer.
        limit_s = self._longer_s.get(method, self._timeout_s) + _WAY_S
        deadline = time.monotonic() + limit_s
        lost: RayActorError | ValueError | None = None
        while (left := deadline - time.monotonic()) > 0:
            try:
                actor = self._actor(tell=lost is not None)
                return ray.get(getattr(actor, method).remote(*arguments), timeout=left)
            except GetTimeoutError:
                break
            except RayTaskError as error:
                raise (error.cause if isinstance(error.cause, TrainerError) else error) from None
            except (RayActorError, ValueError) as error:  # the actor has died or is not restarted yet
                if isinstance(error, ValueError) and "Failed to look up actor" not in str(error):
                    raise
                lost = error
                time.sleep(_AGAIN_S)
        raise NoProgress(
            f"the batch actor {self._name} did not answer {method} within {limit_s:g} "
            "s; its log is in the run's folder"
        ) from lost

    def _actor(self, *, tell: bool) -> Any:  # noqa: ANN401 - Ray's handles have no types
        actor = ray.get_actor(self._name, namespace=self._namespace)
        if tell and self._version is not None:
            # A restarted actor does not know which weights the engines have.
            actor.weights_synced.remote(self._version)
        return actor
