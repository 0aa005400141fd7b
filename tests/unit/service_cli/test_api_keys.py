import hashlib
import tomllib

import pytest

from sandbox_service.config import Rights, ServiceConfig
from service_cli.api_keys import new_api_key


def test_the_service_needs_the_digest_only() -> None:
    key = new_api_key("team-a")
    assert key.digest == hashlib.sha256(key.secret.encode()).hexdigest()
    config = ServiceConfig.model_validate(tomllib.loads(key.toml()))
    assert config.server.api_keys == {key.digest: "team-a"}
    assert key.secret not in key.toml()


def test_a_read_only_key_is_configured_as_one() -> None:
    key = new_api_key("team-a", Rights.READ)
    (configured,) = ServiceConfig.model_validate(tomllib.loads(key.toml())).server.keys.values()
    assert (configured.tenant, configured.rights) == ("team-a", Rights.READ)


def test_keys_differ() -> None:
    assert new_api_key("a").secret != new_api_key("a").secret


@pytest.mark.parametrize("tenant", ["", 'a"b', "a\\b", "a\nb", "bad tenant!", "ä", "-a", "a" * 65])
def test_a_tenant_that_is_no_plain_name_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match="such as team-a"):
        new_api_key(tenant)
