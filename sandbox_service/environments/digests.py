"""Short digests of files, to name what is built from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def digest(*parts: Mapping[str, bytes]) -> str:
    """Return sixteen hexadecimal digits of a hash over paths and contents."""
    total = hashlib.sha256()
    for files in parts:
        for path, content in sorted(files.items()):
            total.update(f"{path}\0{len(content)}\0".encode())
            total.update(content)
    return total.hexdigest()[:16]
