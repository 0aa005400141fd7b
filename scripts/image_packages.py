"""Find the packages in the file system of an image: Debian's, and Python's.

Debian's are those of dpkg's list, and of the folder beside it in which images describe what dpkg has not
installed. An image may hold the root folder of another system, whose list counts too. Python's are all
folders ``*.dist-info``, wherever they are, so also what a package brings along in a folder of its own.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from email.policy import compat32
from pathlib import PurePosixPath
from typing import IO

DEB = "deb"
PYPI = "pypi"
_DPKG = re.compile(r"(?P<root>(?:.*/)?)var/lib/dpkg/(?:status|status\.d/(?!.*\.md5sums$)[^/]+)")
_OS_RELEASE = re.compile(r"(?P<root>(?:.*/)?)usr/lib/os-release")
_METADATA = re.compile(r".*\.dist-info/METADATA")


@dataclass(frozen=True, slots=True, order=True)
class ImagePackage:
    """A package in an image."""

    kind: str
    """DEB or PYPI, as in the type of a package URL."""
    name: str
    version: str
    architecture: str = ""
    distribution: str = ""
    """Of Debian's packages: id and version of the system, such as ``debian-12``."""
    licence: str = ""
    """Of Python's packages: the SPDX expression that they declare; empty if they declare none."""


def image_packages(archive: IO[bytes]) -> dict[ImagePackage, list[str]]:
    """Return the packages in the tar of a file system, and where each of them is recorded.

    The tar is read once, from its beginning to its end.
    """
    debian: list[tuple[str, str, ImagePackage]] = []
    python: list[tuple[str, ImagePackage]] = []
    systems: dict[str, str] = {}
    for path, content in _records(archive):
        if found := _DPKG.fullmatch(path):
            debian += [(found["root"], path, package) for package in _debian_packages(content)]
        elif found := _OS_RELEASE.fullmatch(path):
            systems[found["root"]] = _system(content)
        elif (package := _python_package(content)) is not None:
            python.append((path, package))
    places: dict[ImagePackage, list[str]] = {}
    for root, path, each in debian:
        package = ImagePackage(DEB, each.name, each.version, each.architecture, systems.get(root, ""))
        places.setdefault(package, []).append(f"/{path}")
    for path, package in python:
        places.setdefault(package, []).append(f"/{PurePosixPath(path).parent}")
    return {package: sorted(places[package]) for package in sorted(places)}


def _records(archive: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files that name packages, or the system that they belong to."""
    with tarfile.open(fileobj=archive, mode="r|") as entries:
        for entry in entries:
            path = entry.name.removeprefix("./")
            wanted = any(pattern.fullmatch(path) for pattern in (_DPKG, _OS_RELEASE, _METADATA))
            # A hard link's content came with the file that it shares, which is listed itself.
            if wanted and entry.isreg() and (file := entries.extractfile(entry)) is not None:
                yield path, file.read()


def _debian_packages(content: bytes) -> Iterator[ImagePackage]:
    for paragraph in content.decode(errors="replace").split("\n\n"):
        fields = _fields(paragraph.strip().encode())
        # Records beside dpkg's list have no state; a package that was removed may still have a paragraph.
        if fields["Package"] and fields.get("Status", "installed").endswith("installed"):
            yield ImagePackage(DEB, fields["Package"], fields["Version"] or "", fields["Architecture"] or "")


def _python_package(content: bytes) -> ImagePackage | None:
    fields = _fields(content)
    if not fields["Name"] or not fields["Version"]:
        return None
    return ImagePackage(
        PYPI, fields["Name"], fields["Version"], licence=str(fields["License-Expression"] or "")
    )


def _fields(content: bytes) -> Message:
    return message_from_bytes(content, policy=compat32)


def _system(os_release: bytes) -> str:
    """Return id and version of a system."""
    lines = [line.partition("=") for line in os_release.decode(errors="replace").splitlines()]
    values = {name: value.strip('"') for name, _, value in lines}
    return "-".join(value for value in (values.get("ID", ""), values.get("VERSION_ID", "")) if value)
