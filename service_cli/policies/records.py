"""Write the episodes of a run as JSON lines, with outcomes and all messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from pydantic import JsonValue

    from .conversation import EpisodeConversation
    from .outcomes import PlayedOutcome


class EpisodeFile:
    """A file of episodes, written line by line, so that an interrupted run keeps the finished ones.

    It is opened with the first episode: a run that plays none leaves the episodes of an earlier one.
    ``temperature`` is that of the policy's sampling, where it was chosen, ``params`` are those of the
    instances, and ``evaluation_params`` those of their grading.
    """

    def __init__(
        self,
        path: Path,
        environment: str,
        policy: str,
        temperature: float | None = None,
        params: Mapping[str, JsonValue] | None = None,
        evaluation_params: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._head: dict[str, object] = {"environment": environment, "policy": policy}
        if temperature is not None:
            self._head["temperature"] = temperature
        if params:
            self._head["params"] = params
        if evaluation_params:
            self._head["evaluation_params"] = evaluation_params

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with self._naming_file():
                self._file.close()

    def write(self, outcome: PlayedOutcome, conversation: EpisodeConversation) -> None:
        """Add an episode. Raises OSError with the file's name if it cannot be written."""
        line = {
            **self._head,
            **asdict(outcome),
            "rewards": conversation.rewards,
            "messages": [each.model_dump(mode="json", exclude_none=True) for each in conversation.messages],
            "tools": [each.model_dump(mode="json") for each in conversation.frames[0].tools],
        }
        if len(conversation.frames) > 1:
            line["frames"] = [each.model_dump(mode="json") for each in conversation.frames]
        with self._naming_file():
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("w", encoding="utf-8", buffering=1)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
