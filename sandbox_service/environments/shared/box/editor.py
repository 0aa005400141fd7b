"""The file editor tool: view, create, str_replace and insert on text files of the workspace.

All access goes through the agent's own file methods, so the kernel decides what may be read or written.
Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent, FileInfo
    from sandbox_service.wire.json_types import JsonObject


MAX_FILE_BYTES = 1024 * 1024
"""Largest file that the editor opens or writes."""
_CONTEXT_LINES = 4
_LISTING_DEPTH = 2
_MOST_LISTED = 1000
"""Files and directories below one that is listed, hidden ones included."""


class EditorError(Exception):
    """The edit cannot be made; the text is for the model."""


def edit(agent: Agent, arguments: JsonObject) -> str:
    """Carry out one checked call and say what was done. Raises EditorError."""
    path = _relative(agent, arguments["path"])
    try:
        return _COMMANDS[arguments["command"]](agent, path, arguments)
    except FileNotFoundError:
        raise EditorError(f"There is no file {path!r}.") from None
    except IsADirectoryError:
        raise EditorError(f"{path!r} is a directory.") from None
    except PermissionError:
        raise EditorError(f"Permission denied: {path!r}.") from None
    except (OSError, ValueError) as error:
        raise EditorError(f"{path!r}: {error}.") from None


def _relative(agent: Agent, path: str) -> str:
    """Return the path relative to the workspace; absolute ones inside it are accepted."""
    root = agent.workspace.rstrip("/")
    if path == root:
        return "."
    return path.removeprefix(root + "/") or "."


def _read(agent: Agent, path: str) -> str:
    data = agent.read_file(path, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise EditorError(f"{path!r} is larger than {MAX_FILE_BYTES} bytes; use execute_bash for it.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EditorError(f"{path!r} is not UTF-8 text.") from None


def _write(agent: Agent, path: str, text: str) -> None:
    data = text.encode()
    if len(data) > MAX_FILE_BYTES:
        raise EditorError(f"The file would be larger than {MAX_FILE_BYTES} bytes.")
    agent.write_file(path, data)


def _needs(arguments: JsonObject, name: str) -> Any:  # noqa: ANN401 - checked against the tool's schema before
    if name not in arguments:
        raise EditorError(f"{arguments['command']} needs the argument {name!r}.")
    return arguments[name]


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))


def _around(text: str, first: int, count: int) -> str:
    """Return the lines around an edit of ``count`` lines that begins at line ``first``."""
    lines = text.split("\n")
    start = max(1, first - _CONTEXT_LINES)
    end = min(len(lines), first + count - 1 + _CONTEXT_LINES)
    return _numbered(lines[start - 1 : end], start)


def _view(agent: Agent, path: str, arguments: JsonObject) -> str:
    try:
        text = _read(agent, path)
    except IsADirectoryError:
        return _listing(path, agent.list_files(path, _MOST_LISTED + 1))
    lines = text.removesuffix("\n").split("\n")
    if "view_range" not in arguments:
        return _numbered(lines, 1)
    first, last = arguments["view_range"]
    last = len(lines) if last == -1 else last
    if not 1 <= first <= last or first > len(lines):
        raise EditorError(f"view_range must lie within lines 1 to {len(lines)}.")
    return _numbered(lines[first - 1 : last], first)


def _listing(path: str, files: list[FileInfo]) -> str:
    """Return the entries of a directory, two levels deep, without hidden ones, and whether there are more."""
    base = 0 if path in {".", "./"} else path.strip("/").count("/") + 1
    rows = [f"{path}/"]
    for info in files:
        parts = info.path.split("/")
        if len(parts) - base <= _LISTING_DEPTH and not any(part.startswith(".") for part in parts):
            rows.append(f"{info.path}/" if info.is_directory else f"{info.path}  ({info.size} bytes)")
    if len(files) > _MOST_LISTED:
        rows.append(
            f"{path}/ has more than {_MOST_LISTED} entries, and not all are listed: view its directories."
        )
    return "\n".join(rows) if len(rows) > 1 else f"{path}/ is empty."


def _create(agent: Agent, path: str, arguments: JsonObject) -> str:
    text = _needs(arguments, "file_text")
    _write(agent, path, text)
    return f"Wrote {path} ({text.count(chr(10)) + (not text.endswith(chr(10)) and text != '')} lines)."


def _str_replace(agent: Agent, path: str, arguments: JsonObject) -> str:
    old, new = _needs(arguments, "old_str"), arguments.get("new_str", "")
    if not old:
        raise EditorError("old_str must not be empty.")
    text = _read(agent, path)
    count = text.count(old)
    if count == 0:
        raise EditorError(f"old_str does not occur in {path}. It must match exactly, with its white space.")
    if count > 1:
        raise EditorError(f"old_str occurs {count} times in {path}; give more of its surroundings.")
    before, _, after = text.partition(old)
    changed = before + new + after
    _write(agent, path, changed)
    return f"Edited {path}:\n" + _around(changed, before.count("\n") + 1, new.count("\n") + 1)


def _insert(agent: Agent, path: str, arguments: JsonObject) -> str:
    line, new = _needs(arguments, "insert_line"), _needs(arguments, "new_str")
    text = _read(agent, path)
    lines = text.split("\n") if text else []
    total = len(lines) - (text.endswith("\n") and bool(lines))
    if not 0 <= line <= total:
        raise EditorError(f"insert_line must lie within 0 and {total}.")
    added = new.removesuffix("\n").split("\n")
    changed = "\n".join(lines[:line] + added + lines[line:])
    _write(agent, path, changed)
    return f"Edited {path}:\n" + _around(changed, line + 1, len(added))


_COMMANDS = {"view": _view, "create": _create, "str_replace": _str_replace, "insert": _insert}
