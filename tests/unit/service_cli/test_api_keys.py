import hashlib
import tomllib
from pathlib import Path

import pytest

from sandbox_service.config import Rights, ServiceConfig
from service_cli.api_keys import ApiKey, new_api_key

COMPOSE_FILE = Path(__file__).parents[3] / "deploy/compose/example.service.toml"


def configured(*keys: ApiKey, file: str = "[server.api_keys]\n") -> ServiceConfig:
    return ServiceConfig.model_validate(tomllib.loads(file + "\n".join(key.entry() for key in keys)))


def test_the_service_needs_the_digest_only() -> None:
    key = new_api_key("team-a")
    assert key.digest == hashlib.sha256(key.secret.encode()).hexdigest()
    assert configured(key).server.api_keys == {key.digest: "team-a"}
    assert key.secret not in key.entry()


def test_a_read_only_key_is_configured_as_one() -> None:
    key = new_api_key("team-a", Rights.READ)
    (right,) = configured(key).server.keys.values()
    assert (right.tenant, right.rights) == ("team-a", Rights.READ)


def test_the_lines_of_several_keys_go_to_the_end_of_the_example_for_compose() -> None:
    keys = new_api_key("team-a"), new_api_key("prometheus", Rights.READ)
    server = configured(*keys, file=COMPOSE_FILE.read_text()).server
    assert set(server.keys) == {key.digest for key in keys}


def test_keys_differ() -> None:
    assert new_api_key("a").secret != new_api_key("a").secret


@pytest.mark.parametrize("tenant", ["", 'a"b', "a\\b", "a\nb", "bad tenant!", "ä", "-a", "a" * 65])
def test_a_tenant_that_is_no_plain_name_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="such as team-a"):
        new_api_key(tenant)
