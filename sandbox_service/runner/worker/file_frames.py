"""Serve the file frames of an instance: the workspace's files, for the service's file API."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import MAX_BODY, Frame, Op

from .episode import Refusal

if TYPE_CHECKING:
    from .agent import RunnerAgent


_MOST_ENTRIES = 10_000


def serve_file_frame(frame: Frame, agent: RunnerAgent | None) -> Frame:
    """Read, write or list. Raises Refusal with the contract's code for what the kernel refuses."""
    if agent is None:
        raise Refusal(BoxErrorCode.FILES_UNSUPPORTED, "instances of this environment have no files")
    path = str(frame.meta.get("path", "."))
    try:
        if frame.op is Op.FILE_WRITE:
            agent.write_file(path, frame.body)
            return frame.reply()
        if frame.op is Op.FILE_LIST:
            files, truncated = agent.find_files(path, _MOST_ENTRIES)
            meta = {"truncated": True} if truncated else {}
            return frame.reply(json.dumps([asdict(file) for file in files]).encode(), meta)
        most = min(int(frame.meta["max_bytes"]), MAX_BODY)
        data = agent.read_file(path, most + 1)
    except ValueError as error:
        raise Refusal(BoxErrorCode.INVALID_PATH, str(error)) from None
    except OSError as error:
        raise _refusal(path, error) from None
    if len(data) > most:
        raise Refusal(BoxErrorCode.FILE_TOO_LARGE, f"{path} has more than {most} bytes")
    return frame.reply(data)


def _refusal(path: str, error: OSError) -> Refusal:
    match error.errno:
        case None:
            # Not the kernel's answer for the path: the helper that reaches it failed, or came too late.
            return Refusal(BoxErrorCode.SANDBOX_FAILED, f"{path} was not reached: {error}")
        case errno.ENOENT:
            return Refusal(BoxErrorCode.FILE_NOT_FOUND, f"there is no file {path}")
        case errno.ENOSPC | errno.EDQUOT:
            # What fills it are the agent's files and the caller's: no storage of the service is full.
            return Refusal(BoxErrorCode.FILE_TOO_LARGE, f"{path} has no room: the workspace is full")
        case errno.EFBIG:
            return Refusal(BoxErrorCode.FILE_TOO_LARGE, f"{path} is larger than files may be")
        case _:
            return Refusal(BoxErrorCode.INVALID_PATH, f"{path}: {error.strerror or error}")
