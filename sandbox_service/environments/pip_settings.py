"""Translate pip's package index and certificates into settings of uv, which reads none of pip's.

Uses the standard library only, because the project's own installation uses it before there is anything else.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_TRANSLATED = {"index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), "cert": ("SSL_CERT_FILE",)}
"""Settings of pip, and the variables that uv reads in their place; one that is set already counts."""
_LINE = re.compile(r"^(?P<source>global|install|:env:)\.(?P<key>[\w-]+)='(?P<value>.*)'$", re.MULTILINE)
_SOURCES = ("global", "install", ":env:")
_PIP_S = 60


def uv_settings(python: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give uv the index and the certificates of an interpreter's pip."""
    settings = _pip_settings(python, variables)
    return {
        names[0]: settings[key]
        for key, names in _TRANSLATED.items()
        if key in settings and not any(variables.get(name) for name in names)
    }


def _pip_settings(python: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what pip's files and variables say; nothing without a pip that answers."""
    words = [str(python), "-m", "pip", "config", "list"]
    try:
        done = subprocess.run(
            words, env=dict(variables), capture_output=True, text=True, timeout=_PIP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    # Where several of pip's sources have a key, the last of them counts.
    lines = sorted(_LINE.finditer(done.stdout), key=lambda line: _SOURCES.index(line["source"]))
    return {line["key"]: line["value"] for line in lines}
