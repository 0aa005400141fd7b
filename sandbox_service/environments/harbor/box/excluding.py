"""The content of an archive of a folder from which a task excludes a part by patterns of tar.

The patterns mean what they mean to ``tar --exclude``. But tar tries each at every part of every path, which
takes it minutes where an agent has nested some hundreds of folders; find looks at each name once. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Sequence

TAR_LISTED = ("tar", "-c", "--no-recursion", "--null")
"""The beginning of a command that packs what ``listing`` has found; ``-T -`` has to come after ``-C``."""
_NO_PLAIN_NAME = frozenset("*?[/")


def listing(folder: str, exclude: Sequence[str]) -> list[str]:
    """Return the command that lists what is in a folder and no pattern matches, for ``-T -``."""
    tests: list[str] = []
    for pattern in exclude:
        if _NO_PLAIN_NAME.isdisjoint(pattern.lstrip("*")):
            tests += ["-o", "-name", pattern]
        else:
            # Its wildcards match slashes as well.
            tests += ["-o", "-path", pattern, "-o", "-path", f"*/{pattern}"]
    excluded = ["(", *tests[1:], ")", "-prune", "-o"] if tests else []
    return ["bash", "-c", 'cd "$0" && exec "$@"', folder, "find", ".", *excluded, "-print0"]
