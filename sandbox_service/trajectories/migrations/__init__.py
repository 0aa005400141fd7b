"""Alembic migrations of the trajectory store: one file in ``versions`` for each change of the schema.

A service upgrades an older database when it opens it. To add a migration, change ``schema.py``, write the
next file in ``versions``, and set ``schema.REVISION`` to it; a test compares the tables of an upgraded
database with those of ``schema.py``.
"""
