"""The folders of a task, at the paths that the format gives them.

A box has links ``/app``, ``/logs``, ``/tests`` and ``/solution`` that lead through one link among the
workspaces, ``.task``, to the folder of whoever is at work: the agent, or the verifier, which is another user
with a folder of its own. Standard library only.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence

FOLDERS = ("app", "logs", "tests", "solution")
"""Names of the links in the root folder of a box, and of the folders to which they lead."""
LINK = ".task"
"""Their common part, beside the workspaces."""
WORKDIR = "app"
SETUP = "setup.sh"
"""The program that a step may bring for its beginning."""
SUBFOLDERS = ("app", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution")
INITIAL = "/opt/task/app"
"""The initial working directory of a task with an image of its own; the image's build has put it aside."""
IMAGE_VARIABLES = "/opt/task/environment"
"""The variables of such an image, each ended by a null byte."""
IMAGE_WORKDIR = "/opt/task/workdir"
"""The path of its working directory."""
IMAGE_TESTS = "/opt/task/tests"
"""The tests of an image that brings them."""
IMAGE_PACKED = "/opt/task/packed_bytes"
"""The length of its initial working directory, packed as ``pack`` does it."""
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
"""The folders besides the workspaces that agent and verifier can write."""
PACKAGES = ("/mnt/agents/harbor", "/opt/agents/harbor")
"""The places of the packages that the environment offers to tasks, in process boxes and containers."""


_LONGEST_ARGUMENT = 128 * 1024
"""Linux's bound of one argument."""
_TRIES = 200
"""Tries, a tenth of a second apart, to take or give the place: what a verifier left is removed meanwhile."""


def take_place(workspace: str) -> str:
    """Return the command that makes the folders of a workspace and leads the links there."""
    quoted = shlex.quote(workspace)
    return (
        f"cd {quoted} && mkdir -p {' '.join(SUBFOLDERS)} && "
        + _tried(f"ln -sfn {quoted} ../{LINK} 2>/dev/null")
        + f" && test /{WORKDIR} -ef {WORKDIR}"
    )


def give_place(workspace: str) -> str:
    """Return the command that removes the link, so that another user can make it."""
    # By the path of the folder above: the agent may have removed or closed its own.
    link = shlex.quote(f"{posixpath.dirname(workspace)}/{LINK}")
    removed = f"{{ rm -rf {link} 2>/dev/null; ! test -e {link} -o -L {link}; }}"
    return f"test -L {link} || chmod -R u+rwx {link} 2>/dev/null; {_tried(removed)}"


def _tried(command: str) -> str:
    return f"for try in {{1..{_TRIES}}}; do {command} && break; sleep 0.1; done"


def pack(workspace: str) -> str:
    """Return the command that writes the working directory and the agent's logs as base64 of a tar.gz."""
    # Files that their owner has closed to itself are left out; the exit status says nothing of them. Tar
    # looks for the pattern once in each path only if it is anchored and has a wildcard; else some hundreds of
    # nested folders take it minutes.
    return (
        f"cd {shlex.quote(workspace)} && "
        "tar -c --anchored '--exclude=logs/verifie[r]' -f - app logs 2>/dev/null "
        "| gzip -1 | base64 -w0"
    )


def pack_all(folders: Sequence[str]) -> str:
    """Return the command that writes all that the agent owns below folders, except the link.

    The output is base64 of a tar.gz, with paths from the root. It fails where tar did not come to its end:
    what was packed by then is no copy.
    """
    return (
        f"shopt -s nullglob; own=(); for folder in {' '.join(map(shlex.quote, folders))}; do "
        'for path in "$folder"/* "$folder"/.[!.]*; do '
        f'[[ ( -O $path || -L $path ) && ${{path##*/}} != {LINK} ]] && own+=(".$path"); '
        "done; done; "
        # The names as input: a command's arguments are bounded, and none is taken for an option.
        "cd / && test ${#own[@]} -gt 0 || exit 1; printf '%s\\0' \"${own[@]}\" "
        "| tar -c --null -T - -f - 2>/dev/null | gzip -1 | base64 -w0; [ ${PIPESTATUS[1]} -le 2 ]"
    )


def unpack(archive: str, folder: str) -> str:
    """Return the command that unpacks what ``pack`` or ``pack_all`` has written."""
    # Behind the command, in the script itself: a variable would take ten times the memory, and a
    # here-document room in /tmp.
    target = shlex.quote(folder)
    # A short command would be an argument of the shell, and no script that it could read; base64 skips lines.
    lines = "\n" * max(1, _LONGEST_ARGUMENT - len(archive))
    return f'tail -n +2 "$0" | base64 -d | tar -xzp -f - -C {target} 2>/dev/null; exit\n{archive}{lines}'


def take_initial(workspace: str) -> str:
    """Return the command that copies the image's initial working directory into a workspace."""
    return f"set -o pipefail; tar -C {INITIAL} -cf - . | tar -C {shlex.quote(workspace)}/{WORKDIR} -xf -"


def image_variables(text: str) -> dict[str, str]:
    """Return the variables of the file IMAGE_VARIABLES."""
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def prologue(variables: Mapping[str, str], workdir: str) -> str:
    """Return what precedes the commands of a task: the working directory and the task's variables."""
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
    return f"cd {shlex.quote(workdir)} || exit 1; {exports}"
