"""Files over HTTP, and paths that try to leave the workspace."""

from __future__ import annotations

import re

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.files import workspace_path
from sandbox_service.wire.frames import Op
from tests.harness.gateway import make_client

FILE = "/v1/instances/{instance_id}/files/{path}"


async def test_a_file_comes_back_as_it_was_written(client, backend, instance):
    data = bytes(range(256))
    url = f"/v1/instances/{instance}/files/data/in put.bin"
    written = await client.put(url, content=data, headers={"Idempotency-Key": "k"})
    assert written.json() == {"path": "data/in put.bin", "size": 256, "is_directory": False}
    assert backend.calls[-1].meta["key"] == "k"
    read = await client.get(url)
    assert (read.content, read.headers["content-type"]) == (data, "application/octet-stream")
    assert read.headers["x-content-type-options"] == "nosniff", "what an agent wrote is no page of ours"


async def test_files_are_listed(client, instance):
    await client.put(f"/v1/instances/{instance}/files/a.txt", content=b"abc")
    listed = (await client.get(f"/v1/instances/{instance}/files", params={"path": "."})).json()
    entry = {"path": "a.txt", "size": 3, "is_directory": False}
    assert listed == {"instance_id": instance, "files": [entry], "truncated": False}


async def test_an_encoded_slash_and_repeated_slashes_name_the_same_file(client, backend, instance):
    await client.put(f"/v1/instances/{instance}/files/a%2Fb", content=b"1")
    reply = await client.get(f"http://localhost//v1//instances/{instance}//files///a//b")
    assert reply.content == b"1"


async def test_an_instance_may_be_named_like_a_part_of_the_path(client):
    body = {"environment": "echo", "task_id": "echo-1", "instance_id": "files"}
    assert (await client.post("/v1/create_instance", json=body)).status_code == 200
    written = await client.put("/v1/instances/files/files/x.txt", content=b"1")
    assert written.json()["path"] == "x.txt"
    assert (await client.get("/v1/instances/files/files/files/x.txt")).status_code == 404
    assert (await client.get("/v1/instances/files/files/x.txt")).content == b"1"


async def test_an_encoded_slash_before_the_files_name_is_refused(client, instance):
    reply = await client.put(f"/v1/instances/{instance}%2Ffiles%2Fa/files/b", content=b"1")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_path")


async def test_a_missing_file_is_a_problem(client, instance):
    reply = await client.get(f"/v1/instances/{instance}/files/none")
    assert (reply.status_code, reply.json()["code"]) == (404, "file_not_found")


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e/secret",
        "a/%2e%2e/%2E%2E/b",
        "a%2F..%2F..%2Fb",
        "%2Fetc%2Fpasswd",
        "%2F%2Fetc",
        "a%00b",
        "a%01b",
        "a%0Ab",
        "a%0A",
        "%ff%fe",
        "x" * 256,
        "y/" * 600 + "z",
        "a/%2e/b",
        "",
        "a/",
    ],
)
async def test_paths_that_leave_the_workspace_are_refused(client, backend, instance, path):
    before = len(backend.calls)
    for method in ("GET", "PUT"):
        reply = await client.request(method, f"/v1/instances/{instance}/files/{path}")
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid_path")
    assert len(backend.calls) == before, "no supervisor was asked"


@pytest.mark.parametrize("path", ["..", "/etc", "a/../b", "a\x00"])
async def test_directories_to_list_are_checked_too(client, instance, path):
    query = path.encode().hex(" ").replace(" ", "%")
    reply = await client.get(f"/v1/instances/{instance}/files?path=%{query}")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_path")


@pytest.mark.parametrize(
    "path", [b"a", b"a/b.txt", "ü/日本".encode(), b"...", b"a b", b"-rf", b"x" * 255, b"a\\b"]
)
async def test_ordinary_names_pass(client, path):
    assert workspace_path(path) == path.decode()
    for pattern in await documented_patterns(client):
        assert re.search(pattern, path.decode())


@pytest.mark.parametrize("path", ["..", "/etc", "a/../b", "a/./b", "a\x00", "a\x7f", "a//b", "a/", "x" * 256])
async def test_the_documented_patterns_match_no_path_that_is_refused(client, path):
    with pytest.raises(ServiceError):
        workspace_path(path.encode())
    for pattern in await documented_patterns(client):
        assert not re.search(pattern, path)


async def test_a_missing_body_writes_an_empty_file_as_the_document_says(client, backend, instance):
    written = await client.put(f"/v1/instances/{instance}/files/a")
    assert (written.status_code, backend.episodes[instance].files) == (200, {"a": b""})
    write = (await client.get("/openapi.json")).json()["paths"][FILE]["put"]
    assert write["requestBody"]["required"] is False
    assert "Idempotency-Key" in {each["name"] for each in write["parameters"]}


async def documented_patterns(client):
    paths = (await client.get("/openapi.json")).json()["paths"]
    parameters = [
        *paths[FILE]["get"]["parameters"],
        *paths["/v1/instances/{instance_id}/files"]["get"]["parameters"],
    ]
    return [each["schema"]["pattern"] for each in parameters if each["name"] == "path"]


async def test_a_file_over_the_body_limit_is_refused(backend):
    async with make_client(backend, ServerConfig(max_body_bytes=10)) as client:
        reply = await client.put("/v1/instances/i/files/a", content=b"x" * 11)
        assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")


async def test_a_refusal_of_the_box_is_returned(client, backend, instance):
    backend.failures[Op.FILE_READ] = ServiceError(ErrorCode.FILES_UNSUPPORTED)
    reply = await client.get(f"/v1/instances/{instance}/files/a")
    assert (reply.status_code, reply.json()["code"]) == (409, "files_unsupported")
