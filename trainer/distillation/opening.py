"""Open the teacher on a server that a run names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trainer.errors import ConfigError, TeacherFailed

from .server import TeacherServer

if TYPE_CHECKING:
    from trainer.chat import ChatTokenizer
    from trainer.config.distillation import ServerTeacher


_PROBE = "Compute 12 * 37, then call tool(x=[1, 2]).\n\tÄ line\u00a0of “text”: \u4f60\u597d 🙂 <b>&amp;</b>"
"""Words, digits, white space and other scripts, on which tokenizers differ."""


@asynccontextmanager
async def open_teacher(config: ServerTeacher, chat: ChatTokenizer) -> AsyncIterator[TeacherServer]:
    """Yield the server of a teacher, and close its connections.

    Raises ConfigError for a server that cannot be asked or has another tokenizer than ``chat``.
    """
    teacher = TeacherServer(config)
    try:
        try:
            await teacher.check_tokenizer(_PROBE, chat.encode(_PROBE))
        except TeacherFailed as error:
            raise ConfigError(f"algorithm.distillation.teacher: {error}") from error
        yield teacher
    finally:
        await teacher.close()
