"""The error codes with which a box answers, by name.

They are those codes of the contract that arise in a box. The program in a box has the standard library only,
so it cannot import the contract; a test compares the two. What each code means, its HTTP status and whether a
caller may retry are written in the contract.
"""

from __future__ import annotations

from enum import StrEnum


class BoxErrorCode(StrEnum):
    """Failures of a box; each member has the name and the value of a contract's ``ErrorCode``."""

    INVALID_REQUEST = "invalid_request"
    UNAUTHENTICATED = "unauthenticated"
    UNKNOWN_INSTANCE = "unknown_instance"
    DUPLICATE_INSTANCE = "duplicate_instance"
    INSTANCE_FINISHED = "instance_finished"
    STEP_INDEX_MISMATCH = "step_index_mismatch"
    AGENTS_UNSUPPORTED = "agents_unsupported"
    MODEL_ENDPOINT_UNSUPPORTED = "model_endpoint_unsupported"
    FILES_UNSUPPORTED = "files_unsupported"
    FILE_NOT_FOUND = "file_not_found"
    INVALID_PATH = "invalid_path"
    FILE_TOO_LARGE = "file_too_large"
    TASK_INVALID = "task_invalid"
    GRADER_FAILED = "grader_failed"
    INSTANCE_LOST = "instance_lost"
    FORK_FAILED = "fork_failed"
    SANDBOX_FAILED = "sandbox_failed"
    STEP_TIMEOUT = "step_timeout"
    DEADLINE_EXCEEDED = "deadline_exceeded"
