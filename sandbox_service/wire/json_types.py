"""The type of a parsed JSON object, inside and outside of a box; standard library only."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""Values are ``Any``, since the type of all JSON values is pydantic's, which a box does not have."""
