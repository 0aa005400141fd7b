"""Decide whether our own box satisfies a task's Dockerfile, so that no image has to be built for it.

That is the case for a Dockerfile that begins with a base like our box (Debian's or Python 3.11's own image),
sets the working directory ``/app``, copies files below it, sets variables, and installs nothing but pinned
packages that the environment offers. Anything else needs an image.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from .task_toml import TaskRefused

WORKDIR = "/app"
"""The working directory of tasks in our own box."""

_BASES = re.compile(
    r"(?:docker\.io/)?(?:library/)?"
    r"(?:python:3\.11(?:\.\d+)?(?:-(?:slim|bookworm|slim-bookworm))?|debian:(?:12|bookworm)(?:-slim)?|sandbox-base)"
    r"(?::[\w.-]+)?"
)
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_PIP = (["pip", "install"], ["pip3", "install"], ["python", "-m", "pip", "install"])
_PIP_OPTIONS = {"--no-cache-dir", "--quiet", "-q", "--disable-pip-version-check", "--no-compile"}
_WITHOUT_EFFECT = {"CMD", "LABEL", "MAINTAINER"}


class NeedsImage(Exception):  # noqa: N818  # an answer, not a fault
    """The Dockerfile has an instruction that only a build can carry out; the message names it."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY instruction: paths below ``environment`` to a path below the working directory."""

    sources: tuple[str, ...]
    target: str
    """Relative to the working directory; ends with a slash if it is a folder."""


@dataclass(slots=True)
class BoxRecipe:
    """The files, variables and packages that our box needs to satisfy a Dockerfile."""

    copies: list[Copy] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    """Pinned packages, ``name==version``."""


def read_dockerfile(text: str, offered: Collection[str]) -> BoxRecipe:
    """Return the recipe of a Dockerfile that our box satisfies.

    ``offered`` are the pins of the packages that boxes have. Raises NeedsImage for any other Dockerfile, and
    TaskRefused for one that is no Dockerfile.
    """
    first, *rest = _instructions(text) or [""]
    word, _, base = first.partition(" ")
    if word.upper() not in ("ARG", "FROM"):
        raise TaskRefused("environment/Dockerfile does not begin with FROM")
    # An argument before FROM may be a part of the base's name.
    if not _BASES.fullmatch(base.strip()):
        raise NeedsImage(first)
    recipe, workdir = BoxRecipe(), "/"
    for line in rest:
        try:
            workdir = _follow(line, workdir, recipe, offered)
        except (ValueError, RecursionError):
            # Docker has its own rules for quotes and lists, so the build decides.
            raise NeedsImage(line) from None
    if workdir != WORKDIR:
        raise NeedsImage(f"no WORKDIR {WORKDIR}")
    return recipe


def _follow(line: str, workdir: str, recipe: BoxRecipe, offered: Collection[str]) -> str:
    """Add one instruction to a recipe and return the working directory after it.

    Raises NeedsImage, ValueError and RecursionError.
    """
    word, _, operand = line.partition(" ")
    word, operand = word.upper(), operand.strip()
    if word == "WORKDIR" and str(PurePosixPath(workdir, operand)) == WORKDIR:
        return WORKDIR
    if word == "COPY":
        recipe.copies.append(_copy(operand, workdir))
    elif word == "ENV":
        recipe.variables |= _variables(operand)
    elif word == "RUN":
        recipe.packages += _pins(operand, offered)
    elif word not in _WITHOUT_EFFECT:
        raise NeedsImage(line)
    return workdir


def _instructions(text: str) -> list[str]:
    """Return the instructions, one a line, without comments and continued lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    return [" ".join(line.split(" ")).strip() for line in joined.splitlines() if line.strip()]


def _copy(rest: str, workdir: str) -> Copy:
    words = json.loads(rest) if rest.startswith("[") else rest.split()
    if not all(isinstance(word, str) for word in words):
        raise NeedsImage(f"COPY {rest}")
    if len(words) < 2 or any(word.startswith("--") or "*" in word or "?" in word for word in words):
        raise NeedsImage(f"COPY {rest}")
    *sources, target = words
    path = PurePosixPath(workdir, target)
    if ".." in path.parts or not path.is_relative_to(WORKDIR) or any(".." in each for each in sources):
        raise NeedsImage(f"COPY {rest}")
    inside = path.relative_to(WORKDIR).as_posix()
    is_folder = target.endswith(("/", ".")) or len(sources) > 1 or inside == "."
    return Copy(tuple(sources), inside + "/" if is_folder else inside)


def _variables(rest: str) -> dict[str, str]:
    first, _, value = rest.partition(" ")
    variables = {first: value.strip()}
    if "=" in first:
        variables = dict(word.split("=", 1) for word in shlex.split(rest))
    if "$" in rest or "\0" in rest or "" in variables:
        raise NeedsImage(f"ENV {rest}")
    return variables


def _pins(rest: str, offered: Collection[str]) -> list[str]:
    words = [] if any(sign in rest for sign in "&|;<>$`[#") else shlex.split(rest)
    for command in _PIP:
        if words[: len(command)] == command:
            wanted = [word for word in words[len(command) :] if word not in _PIP_OPTIONS]
            break
    else:
        raise NeedsImage(f"RUN {rest}")
    for word in wanted:
        if not _PIN.fullmatch(word) or normalized(word) not in {normalized(pin) for pin in offered}:
            raise NeedsImage(f"RUN pip install {word}, which boxes do not have")
    return wanted


def normalized(pin: str) -> str:
    """Return a pin with its name as package indexes compare it."""
    name, _, version = pin.partition("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"
