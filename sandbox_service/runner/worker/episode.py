"""One instance in a worker: its world, its step count, and the JSON of its results.

An action that a world cannot take, since it uses up computation, memory or recursion or raises anything else,
is the agent's doing: the episode ends there, and is graded as it stands. `blame` finds the cause of a grading
that fails.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.world import Context, Outcome, Verdict, WorldError
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import MAX_BODY

from .agent_program import Program, run_program
from .blame import check_number, is_of_machine, report, task_is_at_fault
from .cpu_budget import OverBudget, cpu_budget

if TYPE_CHECKING:
    from sandbox_service.runner.world import JsonObject, World
    from sandbox_service.wire.frames import Frame

    from .agent import RunnerAgent


_EXHAUSTED: dict[type[BaseException], str] = {
    OverBudget: "computation",
    MemoryError: "memory",
    RecursionError: "recursion",
}
_NOT_THE_ACTION = (
    BoxErrorCode.INVALID_REQUEST,
    BoxErrorCode.DEADLINE_EXCEEDED,
    BoxErrorCode.STEP_TIMEOUT,
    BoxErrorCode.SANDBOX_FAILED,
    BoxErrorCode.GRADER_FAILED,
)
"""Codes of evaluations that failed because of the request, the machine or the grader, as the world says."""
_GRADED = ("work", "part")
"""Keys of an evaluation that say what is graded: the work of another box, or one part."""
_STOPPED = "The action was stopped and the episode ended: it took more {} than an action may."
_FAILED = "The environment failed at this action ({}), and the episode ended."


class Refusal(Exception):  # noqa: N818  # an answer, not a fault
    """The answer to an operation that is refused: an error code of the contract and a detail."""

    def __init__(self, code: BoxErrorCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


class WorldEpisode:
    """A world with its step count. Operations that are not possible raise Refusal."""

    def __init__(
        self,
        frame: Frame,
        world_class: type[World],
        agent: RunnerAgent | None,
        step_cpu_s: float | None = None,
        evaluate_cpu_s: float | None = None,
    ) -> None:
        """The last two are CPU time that a step and a grading may take in this process; None for no limit."""
        request = _object(frame.body)
        context = Context(frame.instance_id, int(frame.meta["seed"]), request.get("params", {}), agent)
        self.instance_id = frame.instance_id
        self.environment = str(request["environment"])
        self.task_id = str(request["task_id"])
        self.max_steps = int(frame.meta["max_steps"])
        self.agent = agent
        self.step_index = 0
        self.finished = False
        self.acted = False
        """An action or a program of the agent has begun: before that, no failure can be the agent's."""
        self.broken_off: dict[str, str] = {}
        """For the info of the action that ended the episode: the exhausted resource, or the exception."""
        # Kept as text, which no world changes; a world with an agent is never opened a second time.
        self._created = frame.body if agent is None else b"{}"
        self._step_cpu_s = step_cpu_s
        self._evaluate_cpu_s = evaluate_cpu_s
        self._last: tuple[int, bytes, Frame] | None = None
        self._taken: tuple[bytes, bytes, JsonObject] | None = None
        """The request and the result of a step that the world has taken and that has no answer yet."""
        self.world = world_class(request["task"], context)

    def start(self, frame: Frame) -> Frame:
        """Start the world and return the first observation."""
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
        """Take one action. A repeated step gets the same bytes again, and the world is not called.

        The machine may fail when it ends the episode: a repeat of the last step ends it, and gets its result.
        """
        index = frame.meta.get("step_index")
        if index is not None and index != self.step_index:
            if self._last is not None and self._last[:2] == (index, frame.body):
                return frame.reply(self._last[2].body, self._last[2].meta)
            detail = f"the next step has index {self.step_index}, not {index}"
            raise Refusal(BoxErrorCode.STEP_INDEX_MISMATCH, detail)
        started = time.perf_counter()
        if self._taken is not None and self._taken[0] == frame.body:
            return self._answered(frame, self._taken, started)
        if self.finished:
            raise Refusal(BoxErrorCode.INSTANCE_FINISHED, "the episode is over; evaluate or release it")
        message = _object(frame.body)["message"]
        _name_calls(message, self.step_index)
        self.acted = True
        self.world.broken_off_reward = 0.0
        try:
            with _bounded(self._step_cpu_s):
                outcome = self.world.step(message, world_timeout_s(frame))
            body, meta = self._stepped(outcome)
        except WorldError:
            raise
        except (Exception, OverBudget, SystemExit) as error:  # noqa: BLE001  # the capture point of foreign code
            body, meta = self._stepped(self._break_off(message, error))
        self.finished = meta["terminated"] or meta["truncated"]
        self._taken = (frame.body, body, meta)
        return self._answered(frame, self._taken, started)

    @property
    def half_ended(self) -> bool:
        """The world has taken its last step, but the episode could not be ended."""
        return self._taken is not None

    def _answered(self, frame: Frame, taken: tuple[bytes, bytes, JsonObject], started: float) -> Frame:
        """End the episode if the step was its last, and return the step's answer."""
        _, body, meta = taken
        if self.finished:
            self._end(started + world_timeout_s(frame))
            if "exception" in self.broken_off:
                # For the supervisor's count of them.
                meta["exception"] = self.broken_off["exception"]
        reply = frame.reply(body, {**meta, "run_ms": _since(started)})
        self._last = (self.step_index, frame.body, reply)
        self._taken = None
        self.step_index += 1
        return reply

    def _stepped(self, outcome: Outcome) -> tuple[bytes, JsonObject]:
        """Return a step's result, and what of it the supervisor reads. Raises ValueError and TypeError."""
        cut = outcome.truncated or (not outcome.terminated and self.step_index + 1 >= self.max_steps)
        read = {"reward": check_number(outcome.reward), "terminated": outcome.terminated, "truncated": cut}
        result = {
            "instance_id": self.instance_id,
            "step_index": self.step_index,
            "observation": {"messages": outcome.messages},
            **read,
            "reward_terms": outcome.reward_terms,
            "info": outcome.info,
        }
        return _json(result), read

    def _end(self, deadline: float) -> None:
        """Kill the agent's processes and seal the world, before the answer says that the episode is over.

        ``deadline`` is a time of ``time.perf_counter``.
        """
        try:
            if self.agent is not None:
                self.agent.kill()
            self.world.seal_timeout_s = max(0.0, deadline - time.perf_counter())
            self.world.seal()
        except WorldError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the capture point of foreign code
            if is_of_machine(error):
                detail = f"the episode could not be ended: {error}"
                raise Refusal(BoxErrorCode.SANDBOX_FAILED, detail) from None
            report(error)
            self.broken_off = self.broken_off or {"exception": type(error).__name__}

    def run_agent(self, frame: Frame) -> Frame:
        """Run a program as the agent, and return how it ended; none of its processes is alive then."""
        if self.finished:
            raise Refusal(BoxErrorCode.INSTANCE_FINISHED, "the episode is over; evaluate or release it")
        if self.agent is None:
            raise Refusal(BoxErrorCode.AGENTS_UNSUPPORTED, "the environment has no agent code")
        request = _object(frame.body)
        program = Program(request["command"], request["environment"], request["output_bytes"])
        if "package_folder" in frame.meta:
            program = program.in_package(str(frame.meta["package_folder"]))
        if "port" in frame.meta:
            program = program.at_endpoint(f"127.0.0.1:{frame.meta['port']}")
        started = time.perf_counter()
        self.acted = True
        try:
            end = run_program(self.agent, program, float(frame.meta["timeout_s"]))
        except OSError as error:
            raise Refusal(BoxErrorCode.SANDBOX_FAILED, f"the agent could not be run: {error}") from None
        return frame.reply(_json(asdict(end)), {"run_ms": _since(started)})

    def evaluate(self, frame: Frame) -> Frame:
        """Grade the episode as it stands and return the score."""
        request = _object(frame.body)
        params, grading = request.get("params", {}), request.get("grading", {})
        started = time.perf_counter()
        deadline = time.monotonic() + world_timeout_s(frame)
        grading = {**grading, **{name: request[name] for name in _GRADED if name in request}}
        self.world.evaluate_timeout_s = world_timeout_s(frame)
        # Beside work of another box, no other key than the service's counts: an agent may have made it.
        asked = {} if "work" in request else request
        if "export_work" in asked:
            work = self.world.export_work(asked["export_work"])
            return frame.reply(_json(work), {"run_ms": _since(started)})
        if "count_parts" in asked:
            return frame.reply(b"{}", {"parts": self.world.count_parts(), "run_ms": _since(started)})
        raised: JsonObject = {}

        def grade(world: World, cpu_s: float | None) -> tuple[bytes, JsonObject]:
            world.evaluate_timeout_s = max(0.0, deadline - time.monotonic())
            with _bounded(cpu_s):
                verdict = world.evaluate(params, grading)
            return self._verdict(verdict)

        try:
            body, meta = grade(self.world, self._evaluate_cpu_s)
        except (Exception, OverBudget, SystemExit) as error:
            # Raised again where it is not the agent's doing.
            task = json.loads(self._created).get("task", {})
            prove = partial(grade, cpu_s=None if self._evaluate_cpu_s is None else self._evaluate_cpu_s / 5)
            if not self._is_doing_of_agent(error) or task_is_at_fault(self.world, task, prove, deadline):
                raise
            report(error)
            raised = {} if isinstance(error, OverBudget) else {"exception": type(error).__name__}
            cause = self.broken_off or raised or {"exhausted": _EXHAUSTED[OverBudget]}
            body, meta = self._verdict(Verdict(0.0, False, {**cause}))
        return frame.reply(body, {**meta, **raised, "run_ms": _since(started)})

    def _verdict(self, verdict: Verdict) -> tuple[bytes, JsonObject]:
        """Return a grading's result, and what of it the supervisor reads. Raises ValueError and TypeError."""
        read = {"score": check_number(verdict.score), "success": bool(verdict.success)}
        return _json({"instance_id": self.instance_id, **read, "details": verdict.details}), read

    def _is_doing_of_agent(self, error: BaseException) -> bool:
        """Return whether a grading may have failed at what the agent did."""
        if isinstance(error, WorldError):
            return bool(self.broken_off) and error.code not in _NOT_THE_ACTION
        exhausted = "exhausted" in self.broken_off and isinstance(error, MemoryError)
        return self.acted and (exhausted or not is_of_machine(error))

    def _break_off(self, message: JsonObject, error: BaseException) -> Outcome:
        """End the episode at an action, and return the outcome that says so to the agent.

        Raises the exception again if it is the machine's.
        """
        what = next((name for kind, name in _EXHAUSTED.items() if isinstance(error, kind)), None)
        if what is None and is_of_machine(error):
            raise error
        # For the operator: an environment that fails by its own fault ends here as well.
        report(error)
        raised = type(error).__name__
        self.broken_off = {"exception": raised} if what is None else {"exhausted": what}
        text = _FAILED.format(raised) if what is None else _STOPPED.format(what)
        # Actions before the one that failed keep their rewards, as they do their part of the score.
        earned = self.world.broken_off_reward
        reward = earned if math.isfinite(earned) else 0.0
        return Outcome(_answers(message, text), reward, truncated=True, info={**self.broken_off})

    def rename(self, instance_id: str) -> None:
        """Continue under another id: this process is a copy."""
        old = self.world.context
        self.instance_id = instance_id
        self._last = None
        self.world.context = Context(instance_id, old.seed, old.params, self.agent)

    def twin(self, instance_id: str) -> WorldEpisode:
        """Return a copy in the same process, for worlds that are pure data."""
        twin = object.__new__(WorldEpisode)
        twin.__dict__ = dict(self.__dict__)
        twin.instance_id = instance_id
        twin._last = None
        old = self.world.context
        twin.world = self.world.fork(Context(instance_id, old.seed, old.params, None))
        return twin


def _bounded(cpu_s: float | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if cpu_s is None else cpu_budget(cpu_s)


def world_timeout_s(frame: Frame) -> float:
    """Return the seconds that a world has: a little less than the deadline that kills its worker."""
    deadline = float(frame.meta.get("deadline_s", 60.0))
    return max(0.05, deadline - min(0.5, deadline * 0.1))


def _name_calls(message: JsonObject, step_index: int) -> None:
    """Give each tool call without an id one, since the tool message that answers it needs it."""
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict) and not call.get("id"):
            call["id"] = f"call_{step_index}_{index}"


def _answers(message: JsonObject, text: str) -> list[JsonObject]:
    """Return one text as the answer to every call of a message, or to the message."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return [{"role": "user", "content": text}]
    ids = [call.get("id") if isinstance(call, dict) else None for call in calls]
    return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id in ids]


def _object(body: bytes) -> JsonObject:
    value: Any = json.loads(body)
    if not isinstance(value, dict):
        raise WorldError("the body is no object", BoxErrorCode.INVALID_REQUEST)
    return value


def _json(value: JsonObject) -> bytes:
    # Lone surrogates, which no JSON reader need take, become question marks.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_BODY:
        raise ValueError(f"the answer has {len(data)} bytes, of {MAX_BODY} that fit a frame")
    return data


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
