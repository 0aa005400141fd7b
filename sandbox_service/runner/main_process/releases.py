"""Release instances and clean up behind them, when the host asks for it or their worker is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from .instances import BoxInstance
    from .launcher_client import LauncherClient
    from .workers import Workers


_CLOSE_S = 1.0
"""Longest time in which a world closes before its worker is killed."""
_SHARED_CLOSE_S = 10.0
_REMEMBERED = 4096
"""Lost instances whose release has not come yet."""


class BoxReleases:
    """Releases under way, and cleanups of lost instances that no release has asked about."""

    def __init__(self, workers: Workers, launcher: LauncherClient, shared: bool) -> None:
        self._shared = shared
        self._workers = workers
        self._launcher = launcher
        self._leaving: dict[str, list[Callable[[bool], None]]] = {}
        self._left: dict[str, bool] = {}

    def release(
        self,
        frame: Frame,
        instance: BoxInstance | None,
        answer: Callable[[Frame], None],
        reset: Callable[[], None] | None = None,
    ) -> None:
        """End an instance, or say how the end of one went that was lost before.

        ``reset`` takes it from there, once the world is closed, where the instance is the box's last.
        """

        def done(clean: bool) -> None:
            answer(frame.reply(meta={"clean": clean}))

        def end(instance: BoxInstance) -> None:
            if reset is None:
                self._end(instance, done)
            else:
                reset()

        if instance is None:
            if frame.instance_id in self._leaving:
                self._leaving[frame.instance_id].append(done)
            else:
                done(self._left.pop(frame.instance_id, True))
            return
        worker = instance.worker
        worker.instances.discard(instance.instance_id)
        request = Frame(Op.RELEASE, frame.request_id, frame.instance_id)
        if self._shared:
            self._workers.submit(worker, request, _SHARED_CLOSE_S, lambda _: end(instance))
        elif worker.waiting:
            # An operation runs on it, behind which the release would wait: kill the worker without closing
            # the world.
            end(instance)
        else:
            self._workers.submit(worker, request, _CLOSE_S, lambda _: end(instance))

    def drop(self, instance: BoxInstance) -> None:
        """Clean up behind an instance that was lost or never came to life."""
        instance.worker.instances.discard(instance.instance_id)
        instance_id = instance.instance_id
        self._leaving[instance_id] = []

        def done(clean: bool) -> None:
            for report in self._leaving.pop(instance_id):
                report(clean)
            if not clean and len(self._left) < _REMEMBERED:
                self._left[instance_id] = False

        self._end(instance, done)

    def _end(self, instance: BoxInstance, done: Callable[[bool], None]) -> None:
        """Kill the worker, unless others live in it, and have the agent's side cleaned."""
        if self._shared:
            done(True)
            return

        def gone() -> None:
            if instance.serial is None:
                done(True)
            else:
                self._launcher.release(instance.serial, lambda clean, _left: done(clean))

        self._workers.end_worker(instance.worker, gone)

    def forget(self) -> None:
        """Drop what is known of lost instances: the whole box is cleaned."""
        self._left.clear()
