"""A worker: holds one instance, or many pure-data ones, and answers the runner's frames one after another.

It runs as the environment's user id and is the only process that knows the task. Deadlines are the runner's:
a worker that is late is killed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io.fds import receive_with_descriptors
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import Decoder, Frame, FrameError, Op

from .agent import RunnerAgent
from .blame import is_of_machine, report
from .control import ControlSocket
from .cpu_budget import OverBudget
from .episode import Refusal, WorldEpisode
from .file_frames import serve_file_frame
from .forking import copy_process

if TYPE_CHECKING:
    from sandbox_service.runner.config import RunnerConfig
    from sandbox_service.runner.world import World


class Worker:
    """The loop, and the instances by id."""

    def __init__(self, end: socket.socket, world_class: type[World], config: RunnerConfig) -> None:
        self.end = end
        self._world_class = world_class
        self._many = config.many_per_worker
        # With one instance there is no other to be kept waiting, and the deadline ends only its own.
        self._cpu_s = (
            (config.shared_step_cpu_s, config.shared_evaluate_cpu_s)
            if config.many_per_worker
            else (None, None)
        )
        self.episodes: dict[str, WorldEpisode] = {}
        self._descriptors: list[int] = []
        self._decoder = Decoder()
        self._handlers: dict[Op, Callable[[Frame], Frame | None]] = {
            Op.CREATE: self._create,
            Op.STEP: lambda frame: self._episode(frame).step(frame),
            Op.EVALUATE: lambda frame: self._episode(frame).evaluate(frame),
            Op.FORK: self._fork,
            Op.RUN_AGENT: lambda frame: self._episode(frame).run_agent(frame),
            Op.RELEASE: self._release,
            Op.FILE_READ: self._file,
            Op.FILE_WRITE: self._file,
            Op.FILE_LIST: self._file,
        }

    def run(self) -> None:
        """Serve until the runner hangs up."""
        while True:
            try:
                data, descriptors = receive_with_descriptors(self.end, 1 << 18, 8)
            except ConnectionResetError:
                # The runner hung up with an answer unread: unix(7) reports that in place of the end.
                return
            self._descriptors += descriptors
            if not data:
                return
            for frame in self._decoder.feed(data):
                answer = self._answer(frame)
                # Each at once: by the answers the runner knows which frame is running.
                if answer is not None and not self._send(answer):
                    return

    def _send(self, answer: bytes) -> bool:
        try:
            self.end.sendall(answer)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _wait(self, waits: bool) -> None:
        """Have the runner stop the clock of the present frame while the launcher ends processes."""
        self._send(Frame(Op.EVENT, 0, meta={"event": "waits" if waits else "goes_on"}).encode())

    def _answer(self, frame: Frame) -> bytes | None:
        try:
            reply = self._handlers[frame.op](frame)
            return None if reply is None else reply.encode()
        except (Refusal, WorldError) as refusal:
            return frame.error(refusal.code, refusal.detail).encode()
        except FrameError as error:
            return frame.error(
                BoxErrorCode.TASK_INVALID, f"the environment's answer does not fit a frame: {error}"
            ).encode()
        except (Exception, OverBudget, SystemExit) as error:  # noqa: BLE001  # a world may raise anything
            return self._failed(frame, error)

    def _failed(self, frame: Frame, error: BaseException) -> bytes:
        report(error)
        code = BoxErrorCode.GRADER_FAILED if frame.op is Op.EVALUATE else BoxErrorCode.TASK_INVALID
        if is_of_machine(error):
            code = BoxErrorCode.SANDBOX_FAILED
        return frame.error(code, f"the environment raised {type(error).__name__}").encode()

    def _episode(self, frame: Frame) -> WorldEpisode:
        try:
            return self.episodes[frame.instance_id]
        except KeyError:
            raise Refusal(
                BoxErrorCode.UNKNOWN_INSTANCE, f"there is no instance {frame.instance_id}"
            ) from None

    def _create(self, frame: Frame) -> Frame:
        agent = None
        if "workspace" in frame.meta:
            (control,) = self._take_sockets(frame)
            agent = RunnerAgent(ControlSocket(control, self._wait), str(frame.meta["workspace"]))
        episode = WorldEpisode(frame, self._world_class, agent, *self._cpu_s)
        reply = episode.start(frame)
        self.episodes[frame.instance_id] = episode
        return reply

    def _release(self, frame: Frame) -> Frame:
        episode = self.episodes.pop(frame.instance_id, None)
        if episode is not None:
            episode.world.close()
        return frame.reply()

    def _file(self, frame: Frame) -> Frame:
        episode = self._episode(frame)
        reply = serve_file_frame(frame, episode.agent)
        # A harness that writes files acts as a model's calls do.
        episode.acted = episode.acted or frame.op is Op.FILE_WRITE
        return reply

    def _take_sockets(self, frame: Frame) -> list[socket.socket]:
        """Return the sockets that came with a frame: for the worker of a copy, and for an agent's control."""
        count = int(frame.op is Op.FORK) + int("workspace" in frame.meta)
        return [socket.socket(fileno=self._descriptors.pop(0)) for _ in range(count)]

    def _fork(self, frame: Frame) -> Frame | None:
        if self._many:
            source = self._source(frame)
            copy_id = str(frame.meta["copy_id"])
            self.episodes[copy_id] = source.twin(copy_id)
            return frame.reply(meta={"step_index": source.step_index})
        # Before anything can refuse the copy: left in the queue, they would become those of the next copy.
        carried = self._take_sockets(frame)
        try:
            return self._fork_process(frame, *carried)
        except BaseException:
            for each in carried:
                each.close()
            raise

    def _source(self, frame: Frame) -> WorldEpisode:
        source = self._episode(frame)
        if source.half_ended:
            # A copy would be a step ahead of its record.
            detail = "the episode could not be ended: repeat its last step first"
            raise Refusal(BoxErrorCode.SANDBOX_FAILED, detail)
        return source

    def _fork_process(
        self, frame: Frame, end: socket.socket, control: socket.socket | None = None
    ) -> Frame | None:
        source = self._source(frame)
        copy_id = str(frame.meta["copy_id"])
        pid = copy_process(frame, source, end, control)
        if pid is not None:
            return frame.reply(meta={"step_index": source.step_index, "pid": pid})
        # This is the copy.
        self.end.close()
        self.end = end
        self._decoder = Decoder()
        self.episodes = {copy_id: source}
        source.rename(copy_id)
        return None
