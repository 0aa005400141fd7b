"""API keys, tenants, and where a service may listen without any."""

from __future__ import annotations

import base64

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.auth import Authenticator, ExposureError, check_exposure
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_client

KEYS = {digest("alpha"): "a", digest("beta").upper(): "b"}
RING = Authenticator(ServerConfig(api_keys=KEYS).keys)


def refusal(headers: dict[bytes, bytes], ring: Authenticator | None = None) -> ErrorCode:
    with pytest.raises(ServiceError) as caught:
        (ring or RING).authenticate(headers)
    return caught.value.code


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ({b"authorization": b"Bearer alpha"}, "a"),
        ({b"authorization": b"bearer  beta "}, "b"),
        ({b"x-api-key": b"beta"}, "b"),
        ({b"authorization": b"Basic " + base64.b64encode(b"key:alpha")}, "a"),
    ],
)
def test_a_key_names_its_tenant(headers, tenant):
    assert RING.authenticate(headers).tenant == tenant


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b"Bearer wrong"},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Digest alpha"},
        {b"authorization": b"Basic %%%"},
        {b"authorization": b"Basic " + base64.b64encode(b"alpha")},
        {b"authorization": b"Bearer " + digest("alpha").encode()},
        {b"x-api-key": b"\xff\xfe"},
    ],
)
def test_anything_else_is_unauthenticated(headers):
    assert refusal(headers) is ErrorCode.UNAUTHENTICATED


def test_without_keys_everyone_is_the_local_tenant():
    assert Authenticator({}).authenticate({b"authorization": b"Bearer whatever"}).tenant == "local"


@pytest.mark.parametrize(
    "origin", [b"https://evil.example", b"null", b"http://localhost.evil.example", b"\xff"]
)
def test_without_keys_a_page_of_another_site_is_refused(origin):
    assert refusal({b"origin": origin}, Authenticator({})) is ErrorCode.FORBIDDEN
    assert Authenticator({}, insecure=True).authenticate({b"origin": origin}).tenant == "local"


@pytest.mark.parametrize("origin", [b"http://localhost:8080", b"http://127.0.0.1", b"http://[::1]:9"])
def test_without_keys_a_page_of_this_machine_is_served(origin):
    assert Authenticator({}).authenticate({b"origin": origin}).tenant == "local"


@pytest.mark.parametrize(
    "host", [b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example", b"", b"\xff"]
)
def test_without_keys_a_name_that_resolves_to_loopback_is_refused(host):
    """DNS rebinding: the page's own site is this machine, so that its reads carry no origin."""
    assert refusal({b"host": host}, Authenticator({})) is ErrorCode.FORBIDDEN
    assert Authenticator({}, insecure=True).authenticate({b"host": host}).tenant == "local"
    assert RING.authenticate({b"host": host, b"x-api-key": b"alpha"}).tenant == "a"


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LOCALHOST:8080", b"127.0.0.1:8080", b"127.9.9.9", b"[::1]", b"[::1]:8080", b"Box.lan:1"],
)
def test_without_keys_loopback_and_the_configured_names_are_served(host):
    assert Authenticator({}, host_names=["box.lan"]).authenticate({b"host": host}).tenant == "local"


async def test_the_gateway_of_this_machine_is_not_called_by_other_names():
    async with make_client(EchoBackend()) as client:
        refused = await client.get("/v1/environments", headers={"host": "evil.example"})
        healthy = await client.get("/healthz", headers={"host": "evil.example"})
    async with make_client(EchoBackend(), ServerConfig(host_names=("evil.example",))) as client:
        named = await client.get("/v1/environments", headers={"host": "evil.example"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "server.host_names" in refused.json()["detail"]
    assert (healthy.status_code, named.status_code) == (200, 200)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_keys(host):
    check_exposure(ServerConfig(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_other_addresses_need_keys_or_the_word_insecure(host):
    with pytest.raises(ExposureError, match="--insecure"):
        check_exposure(ServerConfig(host=host))
    check_exposure(ServerConfig(host=host, insecure=True))
    check_exposure(ServerConfig(host=host, api_keys=KEYS))


def test_a_key_in_the_clear_is_no_configuration():
    with pytest.raises(ExposureError, match="SHA-256"):
        check_exposure(ServerConfig(api_keys={"alpha": "a"}))


async def test_the_gateway_asks_for_a_key_and_keeps_tenants_apart():
    backend = EchoBackend()
    config = ServerConfig(api_keys=KEYS)
    body = {"environment": "echo", "task_id": "echo-10"}
    async with make_client(backend, config) as client:
        refused = await client.post("/v1/create_instance", json=body)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        mine = {"Authorization": "Bearer alpha"}
        theirs = {"X-API-Key": "beta"}
        created = (await client.post("/v1/create_instance", json=body, headers=mine)).json()
        assert backend.calls[-1].tenant == "a"
        look = f"/v1/instances/{created['instance_id']}"
        assert (await client.get(look, headers=mine)).status_code == 200
        assert (await client.get(look, headers=theirs)).status_code == 404
        assert (await client.get("/v1/instances", headers=theirs)).json()["instances"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/openapi.json", 200),
        ("/docs", 200),
        ("/metrics", 401),
        ("/nope", 401),
    ],
)
async def test_only_health_and_documentation_are_open(path, status):
    async with make_client(EchoBackend(), ServerConfig(api_keys=KEYS)) as client:
        assert (await client.get(path)).status_code == status


async def test_a_compatibility_client_can_put_its_key_into_the_url():
    async with make_client(EchoBackend(), ServerConfig(api_keys=KEYS)) as client:
        body = {"env_type": "echo", "params": {}}
        reply = await client.post("http://key:alpha@localhost/get_env_profile", json=body)
        assert reply.json() == {"success": True, "data": ["echo-1", "echo-10"]}
        reply = await client.post("/get_env_profile", json=body)
        assert (reply.status_code, list(reply.json())) == (401, ["detail"])
