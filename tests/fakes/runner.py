"""A runner in this process: real worlds behind the frames that a box's runner answers."""

from __future__ import annotations

import importlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.world import Context, World, WorldError
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.environments.base import EnvironmentSpec

__all__ = ["FakeRunner"]


@dataclass(slots=True)
class Place:
    """An instance in the runner."""

    world: World
    max_steps: int
    step_index: int = 0
    over: bool = False
    files: dict[str, bytes] = field(default_factory=dict)


class FakeRunner:
    """Answers CREATE, STEP, EVALUATE, FORK, RELEASE, RESET and files as the runner in a box does."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.places: dict[str, Place] = {}
        self.executed: Counter[str] = Counter()
        """Message contents that a world has acted on, by ``instance/content``."""
        self.refuse: dict[Op, tuple[str, str]] = {}
        """Operation to the error (code, detail) that it is answered with."""
        self.exception: str | None = None
        """The exception that the worlds raise, as a worker reports it."""
        self.clean = True
        """Findings of RELEASE and RESET."""
        self.resets_with_release = 0
        """Number of releases that were to clean the whole box, and did."""
        self._answers: dict[Op, Callable[[Frame], Frame]] = {
            Op.CREATE: self._create,
            Op.STEP: self._step,
            Op.EVALUATE: self._evaluate,
            Op.FORK: self._fork,
            Op.RUN_AGENT: self._run_agent,
            Op.RELEASE: self._release,
            Op.RESET: self._reset,
            Op.FILE_READ: self._file_read,
            Op.FILE_WRITE: self._file_write,
            Op.FILE_LIST: self._file_list,
        }

    def answer(self, frame: Frame) -> Frame:
        """The runner's answer."""
        if frame.op is Op.PING:
            return frame.reply()
        if frame.op in self.refuse:
            code, detail = self.refuse[frame.op]
            if code in ("step_timeout", "instance_lost"):
                self.places.pop(frame.instance_id, None)
            return frame.error(code, detail)
        if frame.op not in (Op.CREATE, Op.RELEASE, Op.RESET) and frame.instance_id not in self.places:
            return frame.error("unknown_instance", frame.instance_id)
        began = time.perf_counter()
        try:
            reply = self._answers[frame.op](frame)
        except WorldError as error:
            return frame.error(error.code, error.detail)
        if self.exception is not None:
            reply.meta["exception"] = self.exception
        reply.meta["run_ms"] = round((time.perf_counter() - began) * 1000, 3)
        return reply

    def _create(self, frame: Frame) -> Frame:
        request = json.loads(frame.body)
        module = importlib.import_module(self.spec.world_module)
        context = Context(frame.instance_id, frame.meta["seed"], request["params"])
        world: World = module.WORLD(request["task"], context)
        start = world.start()
        assert frame.instance_id not in self.places, "an instance is created once in a box"
        self.places[frame.instance_id] = Place(world, frame.meta["max_steps"])
        result = {
            "instance_id": frame.instance_id,
            "environment": request["environment"],
            "task_id": request["task_id"],
            "observation": {"messages": start.messages},
            "tools": start.tools,
            "info": start.info,
        }
        return _reply(frame, result)

    def _run_agent(self, frame: Frame) -> Frame:
        """Say what would be run."""
        program = json.loads(frame.body)
        self.executed[f"{frame.instance_id}/{' '.join(program['command'])}"] += 1
        end = {
            "exit_code": 0,
            "timed_out": False,
            "stdout": " ".join(program["command"]),
            "stderr": json.dumps({**program["environment"], "timeout_s": frame.meta["timeout_s"]}),
            "stdout_truncated": False,
            "stderr_truncated": False,
            "duration_s": 0.0,
        }
        return _reply(frame, end)

    def _step(self, frame: Frame) -> Frame:
        place = self.places[frame.instance_id]
        if place.over:
            return frame.error("instance_finished", "the episode is over")
        assert frame.meta["step_index"] == place.step_index, "the supervisor knows where the instance is"
        message = json.loads(frame.body)["message"]
        outcome = place.world.step(message, frame.meta["deadline_s"])
        self.executed[f"{frame.instance_id}/{message.get('content')}"] += 1
        index = place.step_index
        place.step_index += 1
        truncated = outcome.truncated or place.step_index >= place.max_steps
        place.over = outcome.terminated or truncated
        result = {
            "instance_id": frame.instance_id,
            "step_index": index,
            "observation": {"messages": outcome.messages},
            "reward": outcome.reward,
            "terminated": outcome.terminated,
            "truncated": truncated,
            "reward_terms": outcome.reward_terms,
            "info": outcome.info,
        }
        meta = {"reward": outcome.reward, "terminated": outcome.terminated, "truncated": truncated}
        return _reply(frame, result, meta)

    def _evaluate(self, frame: Frame) -> Frame:
        request = json.loads(frame.body)
        world = self.places[frame.instance_id].world
        asked = {} if "work" in request else request
        if "export_work" in asked:
            return _reply(frame, world.export_work(asked["export_work"]), {})
        if "count_parts" in asked:
            return _reply(frame, {}, {"parts": world.count_parts()})
        grading = request["grading"]
        grading |= {name: request[name] for name in ("work", "part") if name in request}
        verdict = world.evaluate(request["params"], grading)
        result = {
            "instance_id": frame.instance_id,
            "score": verdict.score,
            "success": verdict.success,
            "details": verdict.details,
        }
        return _reply(frame, result, {"score": verdict.score, "success": verdict.success})

    def _fork(self, frame: Frame) -> Frame:
        source = self.places[frame.instance_id]
        copy_id = frame.meta["copy_id"]
        world = source.world.fork(Context(copy_id, source.world.context.seed, source.world.context.params))
        twin = Place(world, source.max_steps, source.step_index, source.over, dict(source.files))
        self.places[copy_id] = twin
        return frame.reply(meta={"step_index": source.step_index})

    def _release(self, frame: Frame) -> Frame:
        known = self.places.pop(frame.instance_id, None) is not None
        reset = known and not self.places and frame.meta.get("reset") is True
        self.resets_with_release += reset
        return frame.reply(meta={"clean": self.clean, **({"reset": True} if reset else {})})

    def _reset(self, frame: Frame) -> Frame:
        return frame.reply(meta={"clean": self.clean and not self.places, "left": []})

    def _file_read(self, frame: Frame) -> Frame:
        files = self.places[frame.instance_id].files
        if frame.meta["path"] not in files:
            return frame.error("file_not_found", frame.meta["path"])
        return frame.reply(files[frame.meta["path"]])

    def _file_write(self, frame: Frame) -> Frame:
        self.places[frame.instance_id].files[frame.meta["path"]] = frame.body
        return frame.reply()

    def _file_list(self, frame: Frame) -> Frame:
        files = self.places[frame.instance_id].files
        listing = [{"path": path, "size": len(data), "is_directory": False} for path, data in files.items()]
        return frame.reply(json.dumps(listing).encode())


def _reply(frame: Frame, result: dict[str, Any], meta: dict[str, Any] | None = None) -> Frame:
    return frame.reply(json.dumps(result).encode(), meta)
