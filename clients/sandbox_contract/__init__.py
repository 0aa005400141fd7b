"""The wire: models and error codes of the ``/v1`` API. Imports pydantic and the standard library only."""
