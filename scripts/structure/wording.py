"""Count the wording to avoid: words of the old vocabulary, each beside the term that replaces it.

docs/glossary.md has the terms. Names are counted as well as prose: ``toldService`` and ``told_service``
both hold ``told``. This file is made of the very words that it counts: they are among those of ``other``.
"""

from __future__ import annotations

import re
from collections import Counter

WORDING_TO_AVOID = {
    "told": (r"told", "sent, reported, given"),
    "tell": (r"tells?|telling", "send, report, say"),
    "heard": (r"heard|hears?|hearing", "received, observed"),
    "hopeless": (r"hopeless\w*", "permanently failing"),
    "premises": (r"premises", "ownership"),
    "desk": (r"desks?", "request handler"),
    "janitor": (r"janitors?", "cleanup"),
    "obituary": (r"obituar(?:y|ies)", "exit report"),
    "shelf": (r"shelf|shelves", "cache"),
    "seat": (r"seats?", "slot"),
    "greeting": (r"greetings?", "handshake"),
    "guests": (r"guests?", "sinks, clients"),
    "material": (r"materials?", "training tensors"),
    "patience": (r"patience", "deadline, stall"),
    "spoil": (r"spoil(?:s|ed|t|ing)?", "corrupt"),
    "imitate": (r"imitat\w*", "SFT, fine-tuning"),
    "publication": (r"publications?|publish(?:e[sdr]|ers|ing)?", "weight sync"),
}
"""Word, pattern and replacement."""

_PATTERNS = {
    word: re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])") for word, (pattern, _) in WORDING_TO_AVOID.items()
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def count_wording(text: str) -> Counter[str]:
    """Return how often each word occurs, in prose and as a part of a name."""
    plain = _CAMEL.sub(" ", text).lower()
    return Counter({word: count for word, seen in _PATTERNS.items() if (count := len(seen.findall(plain)))})
