"""Rollout engines without a model: they say what a test told them to, and die when it says so."""

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from tests.fakes.receipts import receipt_of_file
from trainer.engines.generation import Finish, Generation
from trainer.errors import EngineError, EngineGone, EngineLost
from trainer.types import VersionSpan
from trainer.weight_sync.engines import EngineStatus
from trainer.weight_sync.snapshots import newest_snapshot


@dataclass
class FakeEngine:
    """Samples ascending numbers after the prompt's last token."""

    name: str = "engine-0"
    version: int = 0
    cut: list[int] = field(default_factory=list)
    """The next requests come back aborted after so many tokens."""
    late: int | None = None
    """Tokens after which requests reach their limit when nothing is cut."""
    dead: bool = False
    buried: bool = False
    silent: bool = False
    puzzled: int = 0
    """The next checks raise an unexpected error."""
    tough: int = 0
    """The next times that it is to be killed, that fails."""
    loading: asyncio.Event | None = None
    """Checks wait for it."""
    hangs_after: int = 0
    """After so many checks in vain it is there again, and silent."""
    asked: list = field(default_factory=list)
    deaths: int = 0
    slow: asyncio.Event | None = None
    """Requests wait for it."""

    async def generate(self, request):
        self._alive()
        self.asked.append(request)
        if self.slow is not None:
            await self.slow.wait()
            self._alive()
        tokens = min(request.max_tokens, self.cut[0]) if self.cut else request.max_tokens
        finish = Finish.ABORT if self.cut else Finish.STOP
        if self.cut:
            self.cut.pop(0)
        elif self.late is not None:
            tokens, finish = min(tokens, self.late), Finish.TIMEOUT
        first = request.token_ids[-1] + 1
        spans = (VersionSpan(0, tokens, self.version),) if tokens else ()
        ids = tuple(range(first, first + tokens))
        return Generation(ids, tuple(-float(token) for token in ids), finish, spans)

    async def score_tokens(self, token_ids):
        self._alive()
        return (0.0,) * len(token_ids)

    async def check_health(self):
        if self.dead and self.hangs_after:
            self.hangs_after -= 1
            self.dead, self.silent = bool(self.hangs_after), not self.hangs_after
            raise EngineLost(f"{self.name} is restarted")
        self._alive()
        if self.puzzled:
            self.puzzled -= 1
            raise EngineError("what is it?")
        if self.silent:
            await asyncio.Event().wait()
        if self.loading is not None:
            await self.loading.wait()
        return EngineStatus(self.version, str(self.deaths), 1, 1, 0, False, 0, 100)

    def kill(self):
        if self.tough:
            self.tough -= 1
            raise RuntimeError("it cannot be killed")
        self.silent = False
        self.die()

    def die(self):
        self.dead = True
        self.deaths += 1
        if self.slow is not None:
            self.slow.set()

    def _alive(self):
        if self.buried:
            raise EngineGone(f"{self.name} is buried")
        if self.dead:
            raise EngineLost(f"{self.name} is dead")


ANSWER_S = 0.005
"""Time that an answer takes: futures of engines in other processes are never done at once."""


@dataclass
class Status:
    version: int
    incarnation: str
    workers: int = 1
    paused: bool = False


@dataclass
class FakeHandle:
    """The other kind of handle: one that takes weights. ``dies_at`` names the verb that it dies of, once."""

    name: str = "engine-0"
    version: int = 0
    dies_at: str | None = None
    away: int = 0
    """Times that it is not there after a death."""
    rises_with: int | None = None
    """The version that it finds when it starts again; None: the newest that was sent."""
    workers: int = 1
    offset: float = 0.0
    """The error of its log-probabilities."""
    paused: bool = False
    """It was left so: until it is resumed, it answers no questions about tokens."""
    verbs: list = field(default_factory=list)
    synced: int = 0
    snapshots: Path | None = None
    """The folder in which it looks for them when it starts again."""
    took: Path | None = None
    """The file that it took last."""
    incarnation: int = 0

    def get_status(self):
        return self._do(
            "get_status", lambda: Status(self.version, str(self.incarnation), self.workers, self.paused)
        )

    def pause_generation(self, mode):
        return self._do("pause_generation", note=mode)

    def resume_generation(self):
        return self._do("resume_generation", lambda: setattr(self, "paused", False))

    def enter_sleep(self, mode):
        return self._do("enter_sleep", note=mode)

    def wake_up(self, part):
        return self._do("wake_up", note=part)

    def connect_learner(self, info):
        return self._do("connect_learner", note=dict(info))

    def disconnect_learner(self):
        return self._do("disconnect_learner")

    def begin_update(self, contents):
        return self._do("begin_update")

    def update_weights(self, info):
        return self._do("update_weights", lambda: setattr(self, "took", Path(info["path"])), note=dict(info))

    def get_receipts(self):
        return self._do("get_receipts", self._receipts)

    def finish_update(self, version):
        return self._do("finish_update", lambda: setattr(self, "version", version), note=version)

    def load_newest_snapshot(self):
        return self._do("load_newest_snapshot", lambda: setattr(self, "version", self.synced))

    def load_adapter(self, version, folder):
        def act():
            self.version, self.took = version, Path(folder) / "adapter_model.safetensors"

        return self._do("load_adapter", act, note=folder)

    def score_sequences(self, sequences):
        return self._do("score_sequences", lambda: tuple(self._rated(sequence) for sequence in sequences))

    def sample_text(self, sequences, tokens):
        return self._do("sample_text", lambda: ((0, *range(1, tokens + 1)),) * sequences)

    def _receipts(self):
        """Of the file that it was told of, or, where it was away then, of the newest weight sync."""
        path = newest_snapshot(self.snapshots).path if self.took is None else self.took
        return self.version, (receipt_of_file(path),)

    def _rated(self, token_ids):
        return (0.0, *(-0.5 - self.offset for _ in token_ids[1:]))

    def _do(self, verb, act=lambda: None, note=None):
        future = Future()
        if self.paused and verb in ("sample_text", "score_sequences"):
            return future
        if self.away:
            self.away -= 1
            if not self.away:
                self.incarnation += 1
                self.took = None
                self.version = self.synced if self.rises_with is None else self.rises_with
            answer, said = future.set_exception, EngineLost(f"{self.name} is away")
        elif verb == self.dies_at:
            self.dies_at, self.away = None, 2
            answer, said = future.set_exception, EngineLost(f"{self.name} died")
        else:
            self.verbs.append(verb if note is None else (verb, note))
            answer, said = future.set_result, act()
        Timer(ANSWER_S, answer, [said]).start()
        return future
