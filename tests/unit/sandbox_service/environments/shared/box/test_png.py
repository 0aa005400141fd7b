"""Pictures are files that the contract takes and that hold the pixels."""

import struct
import zlib
from base64 import b64decode

import pytest

from sandbox_contract.messages import Message
from sandbox_service.environments.shared.box.png import png_url

PIXELS = bytes(range(18))
"""Three columns, two rows."""


def test_a_picture_has_the_pixels_row_by_row() -> None:
    url = png_url(3, 2, PIXELS)
    assert Message(role="user", content="x", images=(url,)).images == (url,)
    file = b64decode(url.partition(",")[2])
    assert struct.unpack(">IIBB", file[16:26]) == (3, 2, 8, 2)
    length = int.from_bytes(file[33:37], "big")
    assert file[37:41] == b"IDAT"
    assert zlib.decompress(file[41 : 41 + length]) == b"\0" + PIXELS[:9] + b"\0" + PIXELS[9:]
    assert zlib.crc32(file[37 : 41 + length]) == int.from_bytes(file[41 + length : 45 + length], "big")


@pytest.mark.parametrize(("width", "height", "pixels"), [(3, 2, PIXELS[1:]), (2, 2, PIXELS), (0, 0, b"")])
def test_another_number_of_pixels_is_refused(width: int, height: int, pixels: bytes) -> None:
    with pytest.raises(ValueError, match="pixels have"):
        png_url(width, height, pixels)
