"""Settings as a page shows them, without secrets."""

import pytest
from pydantic import BaseModel

from sandbox_settings import flat_settings, shown_toml, shown_value


class AgentBranch(BaseModel):
    command: tuple[str, ...] = ("play", "--api-key", "hidden")
    environment: dict[str, str] = {"SEARCH_API_KEY": "hidden"}
    turns: int = 3


class Root(BaseModel):
    agent: AgentBranch = AgentBranch()
    judges: tuple[dict[str, str], ...] = ({"url": "http://me:hidden@host", "api_key": "hidden"},)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://me:p@ss@db/x", "postgresql://***@db/x"),
        ("postgresql://me:p/a@s/s@db:5432/x", "postgresql://***@db:5432/x"),
        ("store.url=redis://me@corp:p/w@db", "store.url=redis://***@db"),
        ("http://me@host:80/x", "http://***@host:80/x"),
        ("http://host:80/x", "http://host:80/x"),
        (
            "postgresql://db/x?password=hid den&sslmode=require",
            "postgresql://db/x?password=***&sslmode=require",
        ),
        ("http://h/?a=1&token=hidden#b", "http://h/?a=1&token=***#b"),
        ("http://h/?key=hidden", "http://h/?key=***"),
        ("http://h/?X-Amz-Signature=hidden&API_KEY=hidden", "http://h/?X-Amz-Signature=***&API_KEY=***"),
        ("--api-key=hidden", "--api-key=***"),
        ('args={"api_key": "hidden"}', 'args={"api_key":***'),
        ("server.api_keys.hidden.tenant=acme", "server.api_keys***"),
        ("rollout.max_tokens=4", "rollout.max_tokens=4"),
        ("agents.key:play", "agents.key:play"),
    ],
)
def test_what_may_be_a_secret_in_a_text_is_hidden(value, shown):
    assert shown_value("service.start", value) == shown
    assert shown_value("service.start", [value, 1]).count("hidden") == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"agent": {"command": ["play", "--api-key", "hidden"]}},
        {"agent": ["play", "hidden"]},
        {"agent": {"environment": {"A.B": "hidden"}}},
        {"parts": [{"environment": {"A": "hidden"}, "password": "hidden"}]},
        {"engine": {"args": {"api_key": "hidden"}}},
    ],
)
def test_settings_that_may_be_secrets_as_a_whole_are_hidden(settings):
    [(name, value)] = flat_settings(settings)
    shown = shown_value(name, value)
    assert "hidden" not in shown
    assert "not shown" in shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("seed", 1, "1"),
        ("rollout.max_tokens", 4, "4"),
        ("rollout.api_key_variable", "KEY", "KEY"),
        ("tasks.environment", "code", "code"),
        ("tags", [], "[]"),
        ("parts", [{"limit": None}], '[{"limit": null}]'),
    ],
)
def test_other_settings_are_shown_as_they_are(name, value, shown):
    assert shown_value(name, value) == shown


def test_a_whole_tree_is_written_without_what_may_be_a_secret():
    assert shown_toml(Root()) == (
        'judges = [{url = "http://***@host", api_key = "not shown"}]\n\n[agent]\ncommand = "not shown"\n'
        'environment = {SEARCH_API_KEY = "not shown"}\nturns = 3\n'
    )
