"""A world whose steps are calls of its Agent, written as JSON; runs inside the box."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict

from sandbox_service.runner.world import Candidate, JsonObject, Outcome, Start, Verdict, World, WorldError


class AgentWorld(World):
    """Does what a message says, and gives back what came of it in ``info``."""

    def start(self) -> Start:
        self.candidate: Candidate | None = None
        self.steps = 0
        self.sealing: list[Exception] = []
        if self.task.get("raise"):
            raise RuntimeError("as told")
        return Start(messages=[{"role": "user", "content": "go"}], info={"pid": os.getpid()})

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.steps += 1
        call = json.loads(message["content"])
        info = getattr(self, f"do_{call.pop('do')}")(**call)
        return Outcome(messages=[], info={**info, "steps": self.steps}, terminated="end" in info)

    def do_python(
        self, code: str, timeout_s: float = 20, max_output: int = 65536, wall_timeout_s: float = 60
    ) -> JsonObject:
        return asdict(self.context.agent.python(code, timeout_s, max_output, wall_timeout_s=wall_timeout_s))

    def do_serve(
        self, code: str, timeout_s: float = 20, max_output: int = 65536, wall_timeout_s: float | None = None
    ) -> JsonObject:
        """Run a cell whose questions are answered by what they were, and how many came before."""
        asked: list[JsonObject] = []

        def serve(request: JsonObject) -> JsonObject:
            asked.append(request)
            return {
                "asked": request,
                "before": len(asked) - 1,
                "padding": "x" * int(request.get("wanted", 0)),
            }

        execution = self.context.agent.python(code, timeout_s, max_output, serve, wall_timeout_s)
        return {**asdict(execution), "questions": len(asked)}

    def do_shell(
        self, command: str, timeout_s: float = 20, max_output: int = 65536, wall_timeout_s: float = 60
    ) -> JsonObject:
        return asdict(self.context.agent.shell(command, timeout_s, max_output, wall_timeout_s))

    def do_write(self, path: str, text: str) -> JsonObject:
        return self._guarded(lambda: self.context.agent.write_file(path, text.encode()))

    def do_write_many(self, files: dict[str, str]) -> JsonObject:
        data = {path: text.encode() for path, text in files.items()}
        return self._guarded(lambda: self.context.agent.write_files(data))

    def do_read(self, path: str, max_bytes: int = 1000) -> JsonObject:
        return self._guarded(lambda: self.context.agent.read_file(path, max_bytes).decode())

    def do_list(self, path: str = ".", max_entries: int = 1000) -> JsonObject:
        return self._guarded(
            lambda: [asdict(file) for file in self.context.agent.list_files(path, max_entries)]
        )

    def do_remove(self, folders: list[str]) -> JsonObject:
        return self._guarded(lambda: self.context.agent.remove_files(folders, 20.0))

    def do_control(self, name: str, sleep_s: float = 0) -> JsonObject:
        """Call a method of the agent without arguments, then sleep."""
        value = self._guarded(lambda: getattr(self.context.agent, name)())
        time.sleep(sleep_s)
        return value

    def do_workspace(self) -> JsonObject:
        return {"workspace": self.context.agent.workspace, "instance": self.context.instance_id}

    def do_candidate(self, entry: str, sockets: bool = False) -> JsonObject:
        agent = self.context.agent
        return self._guarded(lambda: setattr(self, "candidate", agent.candidate(entry, sockets=sockets)))

    def do_request(self, message: JsonObject, timeout_s: float = 20) -> JsonObject:
        return self._guarded(lambda: self.candidate.request(message, timeout_s))

    def do_close(self) -> JsonObject:
        return self._guarded(lambda: self.candidate.close())

    def do_sleep(self, seconds: float) -> JsonObject:
        time.sleep(seconds)
        return {}

    def do_spin(self) -> JsonObject:
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))

    def do_recurse(self) -> JsonObject:
        return self.do_recurse()

    def do_exhaust(self) -> JsonObject:
        raise MemoryError

    def do_exit(self, code: int) -> JsonObject:
        os._exit(code)

    def do_replace_excepthook(self) -> JsonObject:
        """Replace the hook of uncaught exceptions by one that ends the process, as packages may."""
        sys.excepthook = lambda *_: sys.exit(3)
        return {}

    def do_raise(self) -> JsonObject:
        raise RuntimeError("as told")

    def do_leave(self) -> JsonObject:
        """End the process as argparse does at an argument that it does not know."""
        sys.exit(2)

    def do_end(self, seal: str, times: int = 1) -> JsonObject:
        """End the episode; sealing it fails as ``seal`` names, that many times."""
        self.sealing = [{"raise": RuntimeError("as told"), "break": OSError("as told")}[seal]] * times
        return {"end": True}

    def seal(self) -> None:
        if self.sealing:
            raise self.sealing.pop()

    def do_break(self) -> JsonObject:
        raise OSError("as told")

    def _guarded(self, action) -> JsonObject:
        try:
            return {"value": action()}
        except (OSError, ValueError, EOFError, RuntimeError) as error:
            return {"raised": type(error).__name__, "detail": str(error)}

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        if "raise" in grading or (self.steps and "raise_after_a_step" in grading):
            raise RuntimeError("as told")
        if "spin" in grading or (self.steps and "spin_after_a_step" in grading):
            self.do_spin()
        if self.steps and "nan_after_a_step" in grading:
            return Verdict(score=float("nan"), success=True)
        if "fail" in grading:
            raise WorldError("as told", grading["fail"])
        if "break" in grading:
            raise OSError("as told")
        return Verdict(score=float(grading.get("score", 0)), success=True, details={"steps": self.steps})


def double(receive, send) -> None:
    """A candidate: answers ``{"n": n}`` with twice the number; other commands are attacks."""
    while True:
        message = receive()
        if "run" in message:
            send({"result": str(eval(message["run"], {"os": os, "time": time}))})
        else:
            send({"n": message["n"] * 2})


WORLD = AgentWorld
