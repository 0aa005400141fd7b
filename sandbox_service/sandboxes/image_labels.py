"""Labels of the images that the project builds, by the names that the OCI gives them.

They say what an image is, and from which release and commit it was built. Images of boxes are named after
their content, so one that exists keeps the labels of the build that made it.
"""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PREFIX = "org.opencontainers.image."
MARK = "sandbox-service.image"
"""The label that images of this project have and others do not; its value is the image's title."""
DISTRIBUTION = "training-sandbox"
_CHECKOUT = Path(__file__).resolve().parents[2]
_GIT_S = 30.0


def image_labels(title: str, description: str, *, licensed: bool = False) -> dict[str, str]:
    """Return the labels of an image; those whose value is not known here are left out.

    ``licensed`` says that the image adds nothing to its base but the project's own code and the packages that
    it depends on: the label then names the project's licence. Other images hold what others have chosen.
    """
    project = _project()
    values = {
        "title": title,
        "description": description,
        "version": project.get("version", ""),
        "revision": revision(),
        "source": project.get("source", ""),
        "licenses": project.get("license", "") if licensed else "",
    }
    return {MARK: title, **{f"{PREFIX}{name}": value for name, value in values.items() if value}}


@cache
def revision(checkout: Path = _CHECKOUT) -> str:
    """Return the commit of a checkout, with ``-dirty`` for uncommitted changes; empty if it is none."""
    # A folder inside another project's repository has no .git of its own.
    if not (checkout / ".git").exists():
        return ""
    words = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@cache
def _project() -> dict[str, str]:
    """Return what the installed distribution says of itself; nothing for a checkout that is not installed."""
    try:
        described = metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}
    links = dict(link.split(", ", 1) for link in described.get_all("Project-URL") or [] if ", " in link)
    return {
        "version": described["Version"],
        "license": next(iter(described.get_all("License-Expression") or ()), ""),
        "source": links.get("Source", ""),
    }
