"""Arguments of a chat template beyond messages and tools, such as ``enable_thinking``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from jinja2 import Environment, TemplateSyntaxError, meta

logger = logging.getLogger(__name__)
_GIVEN = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "namespace"}
    | {"raise_exception", "strftime_now", "bos_token", "eos_token", "unk_token", "pad_token"}
)
"""Names that a template is always given."""
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_SET = re.compile(r"\bset\s+(\w+)\s*(?:=|-?%\})|\bfor\s+(\w+)(?:\s*,\s*(\w+))?\s+in\b")
_ASKED = re.compile(r"\b(\w+)\s+is\s+(?:not\s+)?defined\b|\b(\w+)\s*\|\s*default\b")


def known_arguments(source: str) -> frozenset[str]:
    """Return the names of the arguments that a template takes, as far as its source shows.

    They are the names that it reads and does not set itself, or tests for before setting them.
    """
    try:
        tree = Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=False).parse(
            _GENERATION.sub("", source)
        )
    except TemplateSyntaxError:
        return frozenset()
    own = {name for names in _SET.findall(source) for name in names if name}
    asked = {name for names in _ASKED.findall(source) for name in names if name}
    read = meta.find_undeclared_variables(tree) - _GIVEN
    return frozenset(name for name in read if name in asked or name not in own)


def warn_of_unknown(source: str, names: Iterable[str]) -> None:
    """Warn of arguments that the template does not mention, which have no effect."""
    unknown = [name for name in names if not re.search(rf"\b{re.escape(name)}\b", source)]
    if unknown:
        known = ", ".join(sorted(known_arguments(source))) or "none"
        logger.warning(
            "chat.template_kwargs: the chat template does not mention %s; its arguments are: %s",
            ", ".join(map(repr, unknown)),
            known,
        )
