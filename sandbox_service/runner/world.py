"""Interfaces inside the box: the world that an environment implements, and the objects it is given.

A world is one episode's state. The runner calls it from one thread of one worker process, never twice at
once for one instance, and kills the worker when a call runs past its deadline. Standard library only.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.json_types import JsonObject as JsonObject  # noqa: TC001 - worlds import it from here

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.cpu_usage import CpuUsage


class WorldError(Exception):
    """The environment cannot go on; ``code`` is an error code of the contract (default ``task_invalid``)."""

    def __init__(self, detail: str, code: BoxErrorCode = BoxErrorCode.TASK_INVALID) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code


def wants_sparse(params: JsonObject) -> bool:
    """Return whether an evaluation gives 1 or 0 only, its one parameter. Raises WorldError for others."""
    sparse = params.get("sparse", False)
    if set(params) - {"sparse"} or not isinstance(sparse, bool):
        detail = 'evaluate takes the parameter {"sparse": true} or {"sparse": false}'
        raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
    return sparse


@dataclass(frozen=True, slots=True)
class Execution:
    """The outcome of a piece of agent code. Everything here is output, never status or reward."""

    output: str
    """Standard output and error in one, invalid UTF-8 replaced, cut at the cap."""
    exit_code: int | None
    """Exit status of a command; for a cell 0, or 1 after an exception; None when it was killed."""
    timed_out: bool = False
    """Killed, with all its descendants, when its time was used up."""
    truncated: bool = False
    """More output was written than is kept."""
    died: bool = False
    """The process ended by a signal or by leaving: out of memory, ``os._exit``, a crash."""
    duration_s: float = 0.0
    """Seconds from start to end."""
    waited_s: float = 0.0
    """Those of them in which it wanted to compute and the machine did not let it."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a workspace, path relative to it."""

    path: str
    size: int
    is_directory: bool = False


class Candidate(Protocol):
    """A process of a fresh uid in which a grader runs an agent's artifact; its answers are data, no more."""

    def request(self, message: JsonObject, timeout_s: float) -> JsonObject:
        """Send one JSON object, wait for one. Raises TimeoutError, or EOFError when the process is gone."""
        ...

    def usage(self, enough_s: float = math.inf) -> CpuUsage:
        """Return what it and everything of its uid has computed, and wants to compute.

        The look may end early when it has found ``enough_s`` of processor time.
        """
        ...

    def close(self) -> None:
        """Kill it and everything of its uid."""
        ...


class Agent(Protocol):
    """The unprivileged side of an instance: its processes and its workspace.

    Every method acts under the agent's own uid, so that the kernel, not our code, keeps it away from the
    world. File methods raise FileNotFoundError, IsADirectoryError, PermissionError, ValueError (path leaves
    the workspace) or OSError as the kernel gives them.

    Agent code may compute and sleep for ``timeout_s``. Waiting for a processor on a busy machine does not
    count, until ``wall_timeout_s`` of real time (``timeout_s`` when None) have passed. Code that the machine
    kept from its time until then is ended with WorldError(step_timeout): the agent is not to blame.
    """

    @property
    def workspace(self) -> str:
        """Absolute path of the workspace, the working directory of cells and commands."""
        ...

    def python(
        self,
        code: str,
        timeout_s: float,
        max_output: int = 65536,
        serve: Callable[[JsonObject], JsonObject] | None = None,
        wall_timeout_s: float | None = None,
    ) -> Execution:
        """Run a cell in the persistent Python session, which starts at first use and after a kill.

        While it runs, its calls of ``ask_world.ask`` are answered by ``serve``, one after another; what
        it is asked may be anything, from anything that runs as the agent, and it has to be quick.
        """
        ...

    def shell(
        self, command: str, timeout_s: float, max_output: int = 65536, wall_timeout_s: float | None = None
    ) -> Execution:
        """Run ``bash -c command``; nothing of it is alive afterwards."""
        ...

    def read_file(self, path: str, max_bytes: int) -> bytes:
        """Return a regular file's bytes, at most ``max_bytes``; symbolic links are not followed."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Write a file, making its directories."""
        ...

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files by path, in order, at the price of one; the first that cannot be written ends it."""
        ...

    def list_files(self, path: str = ".", max_entries: int = 1000) -> list[FileInfo]:
        """Return the files below ``path``, sorted by path."""
        ...

    def remove_files(self, folders: Sequence[str], timeout_s: float) -> None:
        """Remove everything of the agent's below ``folders``, absolute paths, and make its workspace again.

        No process of the agent may run. Raises TimeoutError, and OSError where the agent has no user id of
        its own.
        """
        ...

    def freeze(self) -> None:
        """Stop every process of the agent until ``thaw``."""
        ...

    def thaw(self) -> None:
        """Let the agent's processes go on."""
        ...

    def still(self) -> AbstractContextManager[None]:
        """Freeze the agent for a block and thaw it afterwards; kill it when it cannot be frozen."""
        ...

    def kill(self) -> None:
        """Kill every process of the agent, and see that none is left. The workspace stays."""
        ...

    def candidate(self, entry: str, *, sockets: bool = False) -> Candidate:
        """Start ``module:function`` in a forked process under a fresh uid, in an empty directory of its own.

        Without ``sockets`` it can open none but pairs: what it is told reaches nobody, the agent included.
        The function gets ``receive() -> dict`` (EOFError at the end) and ``send(dict)``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """A world's data about its instance."""

    instance_id: str
    seed: int
    params: JsonObject = field(default_factory=dict)
    agent: Agent | None = None
    """Present when the environment declares agent code."""


@dataclass(frozen=True, slots=True)
class Start:
    """The opening of an episode; messages and tools in OpenAI's form.

    User and tool messages may have ``images``, a list of data URLs, beside a text that is complete without.
    """

    messages: list[JsonObject]
    tools: list[JsonObject] = field(default_factory=list)
    info: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one action."""

    messages: list[JsonObject]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    reward_terms: dict[str, float] = field(default_factory=dict)
    info: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grader's answer."""

    score: float
    success: bool
    details: JsonObject = field(default_factory=dict)


class World(ABC):
    """One episode of one task. A world module has a class ``WORLD`` of this base.

    It may have a function ``warm(data)``, too, which is called once, before any instance, with the folder of
    the environment's data, or None.
    """

    evaluate_timeout_s: float = 110.0
    """Real time that the evaluation may take; the runner sets it before each."""
    seal_timeout_s: float = 30.0
    """Real time that ``seal`` may take; the runner sets it before each."""
    broken_off_reward: float = 0.0
    """The reward of the step under way if it is broken off now; the runner sets it to 0 before each.

    A world that takes several actions in a step adds up here what those that are done have earned.
    """

    def __init__(self, task: JsonObject, context: Context) -> None:
        self.task = task
        self.context = context

    @abstractmethod
    def start(self) -> Start:
        """Prepare the episode and give its opening."""

    @abstractmethod
    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        """Take one assistant message (OpenAI form), within ``timeout_s`` seconds."""

    @abstractmethod
    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        """Grade without disturbing the episode, within ``evaluate_timeout_s`` seconds.

        ``grading`` is ground truth that is sent only now.
        """

    def export_work(self, part: JsonObject) -> JsonObject:
        """Return what a world of the same class, in the box of a verifier, grades by ``evaluate``.

        It comes there as ``grading["work"]``. ``part`` says which of several parts of the task, and is empty
        where there is one only; it comes there as ``grading["part"]``. The time is that of an evaluation.
        """
        raise WorldError("what it leaves cannot be graded in another box", BoxErrorCode.GRADER_FAILED)

    def count_parts(self) -> int:
        """Return how many parts of the task, from its first, have something to grade.

        An evaluation of several parts begins with it, and has what they grade as it is then. A part that is
        graded here, and not in the box of a verifier, comes as ``grading["part"]`` to ``evaluate``.
        """
        return 1

    def untouched(self, task: JsonObject) -> Iterator[World]:
        """Give new worlds of the same task in which an agent did nothing, or something harmless.

        If grading raises here and in all of them, the grader is at fault and not the agent. A world that does
        not reach its grader before the agent has answered gives some with plain answers. A world with an
        agent cannot be opened twice and gives none: it raises WorldError(grader_failed) where it has proof.
        Called in a copy of the process, with the task as it was created.
        """
        if self.context.agent is None:
            untouched = type(self)(copy.deepcopy(task), self.context)
            untouched.start()
            yield untouched

    def seal(self) -> None:  # noqa: B027  # pure data needs no copy
        """Keep what evaluations will grade: the episode has ended, and the agent's processes are dead.

        It has ``seal_timeout_s`` seconds, and is called again if the machine made it fail.
        """

    def close(self) -> None:  # noqa: B027  # most worlds take nothing
        """Give back what ``start`` took. The agent's processes and files are the runner's business."""

    def fork(self, context: Context) -> World:
        """Return a copy with its own context; where a world has its own process, the process is the copy."""
        twin = copy.copy(self)
        twin.__dict__ = {
            key: copy.deepcopy(value) for key, value in self.__dict__.items() if key != "context"
        }
        twin.context = context
        return twin
