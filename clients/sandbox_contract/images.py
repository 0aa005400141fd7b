"""Pictures in an environment's messages, and the form in which model servers take them.

A picture is a data URL, so that nothing is ever fetched. It stands in a field of its own beside the text:
``content`` stays the whole observation in words, and what reads, stores, tokenizes or exports text need not
know that there are pictures. ``chat_messages`` makes OpenAI's content parts of both, for models that see.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from .base import JsonObject
    from .messages import Message

__all__ = ["MOST_IMAGES", "MOST_IMAGE_BYTES", "ImageUrl", "chat_messages", "image_urls", "with_image_parts"]

MOST_IMAGES = 16
"""Pictures of one message."""
MOST_IMAGE_BYTES = 1024 * 1024
"""Bytes of one picture, without the encoding as base64."""
_MOST_CHARACTERS = MOST_IMAGE_BYTES * 4 // 3 + 64
_SIGNATURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n", b""),
    "image/jpeg": (b"\xff\xd8\xff", b""),
    "image/webp": (b"RIFF", b"WEBP"),
}
"""First bytes of the files of a type, and those from the ninth on."""
_WANTED = f"a picture is a data URL, such as data:image/png;base64,..., of {', '.join(_SIGNATURES)}"


def _checked(url: str) -> str:
    """Return the URL of a picture. Raises ValueError, which says what a picture is."""
    head, _, encoded = url.partition(";base64,")
    media_type = head.removeprefix("data:")
    if not head.startswith("data:") or media_type not in _SIGNATURES:
        raise ValueError(f"{_WANTED}; nothing is fetched from {url[:40]!r}")
    if len(encoded) > _MOST_CHARACTERS:
        raise ValueError(f"a picture has at most {MOST_IMAGE_BYTES} bytes")
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{_WANTED}; this one's base64 cannot be read: {error}") from None
    if len(data) > MOST_IMAGE_BYTES:
        raise ValueError(f"a picture has at most {MOST_IMAGE_BYTES} bytes, not {len(data)}")
    start, ninth = _SIGNATURES[media_type]
    if not data.startswith(start) or not data[8:].startswith(ninth):
        raise ValueError(f"{_WANTED}; this one is no file of the type {media_type}")
    return url


ImageUrl = Annotated[
    str,
    AfterValidator(_checked),
    Field(json_schema_extra={"pattern": "^data:image/(png|jpeg|webp);base64,"}),
]
"""A picture as a data URL: a PNG, JPEG or WebP file of at most a MiB in base64."""

_IMAGE_URL: TypeAdapter[str] = TypeAdapter(ImageUrl)


def image_urls(values: object) -> tuple[str, ...]:
    """Return the pictures of a recorded message's ``images``; what is none is left out."""
    found = []
    for value in values[:MOST_IMAGES] if isinstance(values, list | tuple) else ():
        try:
            found.append(_IMAGE_URL.validate_python(value))
        except ValidationError:
            continue
    return tuple(found)


def chat_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Return messages as a chat-completions server takes them, without empty fields.

    A message without pictures has its text as content. One with pictures has parts: its text, and an
    ``image_url`` each. A tool message has text only in OpenAI's schema, so that the pictures of tools follow
    as a user's message behind the last of them.
    """
    return with_image_parts(message.model_dump(mode="json", exclude_none=True) for message in messages)


def with_image_parts(messages: Iterable[Mapping[str, JsonValue]]) -> list[JsonObject]:
    """Return messages that are JSON objects already with parts in place of ``images``: see chat_messages."""
    shown: list[JsonObject] = []
    of_tools: list[JsonValue] = []
    for message in messages:
        fields = dict(message)
        images = fields.pop("images", None)
        parts: list[JsonValue] = [
            {"type": "image_url", "image_url": {"url": url}}
            for url in (images if isinstance(images, list | tuple) else ())
        ]
        if fields.get("role") == "tool":
            of_tools += parts
        elif of_tools:
            shown.append({"role": "user", "content": of_tools})
            of_tools = []
        if parts and fields.get("role") != "tool":
            text = fields.get("content")
            fields["content"] = [{"type": "text", "text": text}, *parts] if text else parts
        shown.append(fields)
    if of_tools:
        shown.append({"role": "user", "content": of_tools})
    return shown
