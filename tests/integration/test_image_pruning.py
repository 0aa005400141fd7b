"""Removal of images on a real Docker engine, of images of the test's own."""

import io

import docker
import pytest

from sandbox_service.environments.in_use import UseMarks
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.image_pruning import mark_image, prune_images
from sandbox_service.sandboxes.images import image_reference
from tests.harness.boxes import ECHO, need_engine

pytestmark = pytest.mark.docker

NAMES = tuple(f"prune-test/sandbox-code:{name}-0123456789abcdef" for name in ("old", "marked", "busy"))
OLD, MARKED, BUSY = NAMES


@pytest.fixture
def client():
    need_engine()
    client = docker.APIClient(version="auto")
    for name in NAMES:
        recipe = f"FROM {image_reference(ECHO)}\nLABEL prune-test={name}\n"
        list(client.build(fileobj=io.BytesIO(recipe.encode()), tag=name, rm=True))
    container = client.create_container(BUSY, command=["true"])
    yield client
    client.remove_container(container, force=True)
    for name in NAMES:
        client.remove_image(name) if client.images(name=name) else None
    client.close()


async def test_unused_images_go_and_those_of_a_service_or_a_container_stay(client, tmp_path):
    service = UseMarks()
    mark_image(service, tmp_path, MARKED)
    engine = await DockerEngine.connect(None, 5)
    try:
        planned = await prune_images(engine, NAMES.__contains__, tmp_path, dry_run=True)
        assert OLD in planned.removed
        assert client.images(name=OLD)
        done = await prune_images(engine, NAMES.__contains__, tmp_path)
    finally:
        await engine.close()
        service.close()
    assert (done.removed, set(done.in_use)) == ([OLD], {MARKED, BUSY})
    assert not client.images(name=OLD)
    assert client.images(name=MARKED)
    assert client.images(name=BUSY)
