"""One instance in a worker: its world, its step count, and the JSON of its results."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from .world import Context, WorldError

if TYPE_CHECKING:
    from .agent import BoxAgent
    from .frames import Frame
    from .world import JsonObject, World

__all__ = ["Episode", "Refusal"]


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """An error code of the contract, and a sentence."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class Episode:
    """A world and how far it is. Raises Refusal for what cannot be done."""

    def __init__(self, frame: Frame, world_class: type[World], agent: BoxAgent | None) -> None:
        request = _object(frame.body)
        context = Context(frame.instance_id, int(frame.meta["seed"]), request.get("params", {}), agent)
        self.instance_id = frame.instance_id
        self.environment = str(request["environment"])
        self.task_id = str(request["task_id"])
        self.max_steps = int(frame.meta["max_steps"])
        self.agent = agent
        self.step_index = 0
        self.finished = False
        self._last: tuple[int, bytes, Frame] | None = None
        self.world = world_class(request["task"], context)

    def start(self, frame: Frame) -> Frame:
        """The opening observation."""
        started = time.perf_counter()
        start = self.world.start()
        result = {
            "instance_id": self.instance_id,
            "environment": self.environment,
            "task_id": self.task_id,
            "observation": {"messages": start.messages},
            "tools": start.tools,
            "info": start.info,
        }
        return frame.reply(_json(result), {"run_ms": _since(started)})

    def step(self, frame: Frame) -> Frame:
        """Take one action; a step that was answered once is answered again in the same bytes."""
        index = frame.meta.get("step_index")
        if index is not None and index != self.step_index:
            if self._last is not None and self._last[:2] == (index, frame.body):
                return frame.reply(self._last[2].body, self._last[2].meta)
            detail = f"the next step has index {self.step_index}, not {index}"
            raise Refusal("step_index_mismatch", detail)
        if self.finished:
            raise Refusal("instance_finished", "the episode is over; evaluate or release it")
        message = _object(frame.body)["message"]
        started = time.perf_counter()
        outcome = self.world.step(message, patience(frame))
        reward = _finite(outcome.reward)
        cut = outcome.truncated or (not outcome.terminated and self.step_index + 1 >= self.max_steps)
        if outcome.terminated or cut:
            self._end()
        run_ms = _since(started)
        result = {
            "instance_id": self.instance_id,
            "step_index": self.step_index,
            "observation": {"messages": outcome.messages},
            "reward": reward,
            "terminated": outcome.terminated,
            "truncated": cut,
            "reward_terms": outcome.reward_terms,
            "info": outcome.info,
        }
        meta = {"reward": reward, "terminated": outcome.terminated, "truncated": cut, "run_ms": run_ms}
        reply = frame.reply(_json(result), meta)
        self._last = (self.step_index, frame.body, reply)
        self.step_index += 1
        self.finished = outcome.terminated or cut
        return reply

    def _end(self) -> None:
        """End the agent's processes and seal the world, before anybody learns that the episode is over."""
        try:
            if self.agent is not None:
                self.agent.kill()
            self.world.seal()
        except OSError as error:
            raise Refusal("sandbox_failed", f"the episode could not be ended: {error}") from None

    def evaluate(self, frame: Frame) -> Frame:
        """Grade."""
        request = _object(frame.body)
        started = time.perf_counter()
        self.world.evaluate_timeout_s = patience(frame)
        verdict = self.world.evaluate(request.get("params", {}), request.get("grading", {}))
        score, success = _finite(verdict.score), bool(verdict.success)
        result = {
            "instance_id": self.instance_id,
            "score": score,
            "success": success,
            "details": verdict.details,
        }
        return frame.reply(_json(result), {"score": score, "success": success, "run_ms": _since(started)})

    def rename(self, instance_id: str) -> None:
        """This process is a copy: go on under another id."""
        old = self.world.context
        self.instance_id = instance_id
        self._last = None
        self.world.context = Context(instance_id, old.seed, old.params, self.agent)

    def twin(self, instance_id: str) -> Episode:
        """A copy in the same process, for worlds that are pure data."""
        twin = object.__new__(Episode)
        twin.__dict__ = dict(self.__dict__)
        twin.instance_id = instance_id
        twin._last = None
        old = self.world.context
        twin.world = self.world.fork(Context(instance_id, old.seed, old.params, None))
        return twin


def patience(frame: Frame) -> float:
    """Seconds that a world is given: a little less than the deadline at which its worker is killed."""
    deadline = float(frame.meta.get("deadline_s", 60.0))
    return max(0.05, deadline - min(0.5, deadline * 0.1))


def _object(body: bytes) -> JsonObject:
    value: Any = json.loads(body)
    if not isinstance(value, dict):
        raise WorldError("the body is no object", "invalid_request")
    return value


def _json(value: JsonObject) -> bytes:
    # Lone surrogates, which no JSON reader need take, become question marks.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite(number: float) -> float:
    number = float(number)
    if number != number or number in (float("inf"), float("-inf")):
        raise WorldError(f"the environment gave {number}")
    return number


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
