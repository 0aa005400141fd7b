"""The reference page of a service without access to the internet, as a browser shows it."""

import re

from sandbox_service.config import ServerConfig
from sandbox_service.gateway.openapi import SERVICE_TITLE
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_client


async def test_the_page_shows_every_route_and_model_and_loads_nothing():
    async with make_client(EchoBackend()) as client:
        page = await client.get("/docs")
        document = (await client.get("/openapi.json")).json()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()} {path}</b>" in page.text
    for model in document["components"]["schemas"]:
        assert f'id="{model}"' in page.text
    assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page.text)


async def test_every_link_of_the_page_leads_somewhere():
    async with make_client(EchoBackend()) as client:
        page = (await client.get("/docs")).text
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


async def test_the_root_says_what_answers_and_where_to_read_on():
    async with make_client(EchoBackend()) as client:
        root = await client.get("/")
        assert root.status_code == 200
        assert root.json()["service"] == SERVICE_TITLE
        for page in ("documentation", "openapi", "environments"):
            assert (await client.get(root.json()[page])).status_code == 200
        assert (await client.head("/")).status_code == 200
        assert (await client.post("/")).status_code == 405


async def test_the_pages_need_no_key():
    config = ServerConfig(api_keys={digest("alpha"): "a"})
    async with make_client(EchoBackend(), config) as client:
        assert [(await client.get(path)).status_code for path in ("/", "/docs", "/v1/stats")] == [
            200,
            200,
            401,
        ]
