import os
import subprocess
import uuid

import psycopg
import pytest

from tests.harness import postgres


@pytest.fixture(scope="session")
def server():
    """The URL of a PostgreSQL server, started for this session where none runs."""
    if given := os.environ.get("SANDBOX_TEST_POSTGRES_URL"):
        yield given
        return
    try:
        yield postgres.script("url")
    except subprocess.CalledProcessError:
        try:
            url = postgres.script("start")
        except subprocess.CalledProcessError as error:
            postgres.unavailable(error)
            return
        yield url
        postgres.script("stop")


@pytest.fixture
def admin(server):
    """A connection to the server, outside of any transaction."""
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


@pytest.fixture
def url(server, admin):
    """The URL of an empty database of the test's own."""
    name = f"test_{uuid.uuid4().hex}"
    admin.execute(f"CREATE DATABASE {name}")
    yield f"{server.rpartition('/')[0]}/{name}"
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
