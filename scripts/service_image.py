"""Build the image of the service by docker/service.Dockerfile, from wheels in the locked versions.

    python -m scripts.service_image [TAG]

The wheels come from the package index that pip is configured with, on this machine, so that the build itself
needs no network. Prints the image's name and size.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from sandbox_service.config import SandboxConfig
from sandbox_service.environments.provisions import cache_root
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.factory import open_engine
from sandbox_service.sandboxes.images import base_image, recipes_folder

ROOT = Path(__file__).parents[1]
WHEELS_S = 1800
BUILD_S = 1800
LOCK = ROOT / "constraints" / "cpu.txt"


def make_wheels(folder: Path) -> None:
    """Write wheels of this checkout, its dependencies in the locked versions, and pip to a folder."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "-c", str(LOCK)]
    subprocess.run(
        [*words, "--wheel-dir", str(folder), str(ROOT / "clients"), f"{ROOT}[service]", "pip"],
        check=True,
        timeout=WHEELS_S,
    )


def revision() -> str:
    """Return the commit of this checkout."""
    said = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


async def build(tag: str) -> None:
    """Build the image in the engine that answers."""
    engine = await open_engine(SandboxConfig())
    try:
        base = await base_image(engine, print, cache_root() / "images", force=False)
        with tempfile.TemporaryDirectory() as made, tempfile.TemporaryFile() as context:
            wheels = Path(made)
            print(f"{tag}: making wheels", flush=True)
            await asyncio.to_thread(make_wheels, wheels)
            with tarfile.open(fileobj=context, mode="w") as archive:
                archive.add(wheels, "wheels")
                archive.add(recipes_folder() / "service.Dockerfile", "Dockerfile")
            context.seek(0)
            print(f"{tag}: building on {base}", flush=True)
            version = importlib.metadata.version("training-sandbox")
            await engine.build(
                context, tag, {"BASE": base, "VERSION": version, "REVISION": revision()}, BUILD_S
            )
        print(f"{tag}: {await size_mib(engine, tag)} MiB")
    finally:
        await engine.close()


async def size_mib(engine: DockerEngine, tag: str) -> int:
    """Return the size of an image with its base."""
    return await engine.use(
        "inspect an image", lambda client: int(client.inspect_image(tag)["Size"]) >> 20, 30
    )


def main(arguments: list[str]) -> None:
    """Build the image ``arguments[0]``, by default ``training-sandbox:VERSION``."""
    version = importlib.metadata.version("training-sandbox")
    asyncio.run(build(arguments[0] if arguments else f"training-sandbox:{version}"))


if __name__ == "__main__":
    main(sys.argv[1:])
