"""Write pictures for observations: PNG files as data URLs, with the standard library alone.

The same pixels give the same bytes, as replays need, as long as zlib is of one version.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BITS, _RGB = 8, 2
_LEVEL = 3
"""Of zlib: half as large again as by the default of 6, in a quarter of its time."""


def png_url(width: int, height: int, pixels: bytes) -> str:
    """Return a picture as the contract's ``images`` take it.

    ``pixels`` are the red, green and blue byte of each pixel, in rows from the top. Raises ValueError for
    another number of them.
    """
    row = 3 * width
    if len(pixels) != row * height or not pixels:
        raise ValueError(f"{width} by {height} pixels have {row * height} bytes, not {len(pixels)}")
    # Each row begins with its filter, which is none.
    rows = b"".join(b"\0" + pixels[start : start + row] for start in range(0, len(pixels), row))
    head = struct.pack(">IIBBBBB", width, height, _EIGHT_BITS, _RGB, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows, _LEVEL)), _chunk(b"IEND", b""))
    return f"data:image/png;base64,{b64encode(b''.join((_SIGNATURE, *chunks))).decode()}"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
