"""Name the image that an environment needs, and build those that are missing.

An image is named after its content (Dockerfiles, runner, the environment's box modules), so changed code is
another image and an existing one is never stale. Each environment has its own image and sees no other's
files. The base comes from a registry where one answers, else from Debian's packages.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from local_processes.wait_report import WaitReport
from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.digests import digest
from sandbox_service.environments.provisions import cache_root
from sandbox_service.errors import ServiceError

from .content import box_files, box_modules
from .image_labels import image_labels

if TYPE_CHECKING:
    from sandbox_service.environments.base import EnvironmentSpec, Provisions

    from .docker import DockerEngine


BUILD_COMMAND = "sandbox-service images build"

_RECIPES = Path(__file__).parent / "recipes"
"""Dockerfiles, and the script that makes a base. In a checkout this is a link to the folder ``docker``; a
wheel contains the files themselves."""
_BASE = "sandbox-base"
_BASE_SCRIPT = "build_base_image.sh"
_TARBALL = "base-bookworm.tar"
_PACKAGES = "sandbox-packages"
_COMMON = "sandbox-code"
"""The image whose recipe serves all environments without one of their own."""
_REGISTRY_BASE = ("python", "3.11-slim")
_TREE_BASE = ("sandbox-debian", "bookworm")

_REGISTRY_ANSWER_S = 15.0
"""Time after which a registry that has not started to answer counts as absent."""
_PULL_S = 600.0
_BOOTSTRAP_S = 1200.0
_BUILD_S = 300.0
_PACKAGES_S = 900.0
PROGRESS_EVERY_S = 5.0
"""Seconds between two progress reports of a long build."""


def image_tag(spec: EnvironmentSpec) -> str:
    """Return the tag of an environment's image: its name, and a digest of its whole content."""
    parts = [_recipe(_BASE), _box_recipe(spec.image), box_files(spec)]
    if spec.provisions is not None:
        parts += [_recipe(_PACKAGES), {"provisions": spec.provisions.digest.encode()}]
    return f"{spec.name}-{digest(*parts)}"


def image_reference(spec: EnvironmentSpec, prefix: str = "") -> str:
    """Return the full name of an environment's image; ``prefix`` is a registry and path."""
    return f"{prefix}{spec.image}:{image_tag(spec)}"


async def build_images(
    engine: DockerEngine,
    specs: Iterable[EnvironmentSpec],
    progress: Callable[[str], None],
    *,
    prefix: str = "",
    cache_dir: Path | None = None,
    force: bool = False,
) -> list[str]:
    """Build the missing images, and return the references of all.

    With ``force`` all are built, on a base that is fetched again where a source answers.

    ``progress`` gets a line at the start of each step and at least every ten seconds of it. The output of the
    builds goes to logs in the cache folder, whose paths the lines name.

    Raises ServiceError(SANDBOX_FAILED | STORAGE_FULL) with the message of the engine or the script.
    """
    references: list[str] = []
    cache = cache_dir or cache_root() / "images"
    common = ""
    for spec in specs:
        reference = image_reference(spec, prefix)
        references.append(reference)
        if not force and await engine.has_image(reference):
            progress(f"{reference}: exists already")
            continue
        common = base = common or await base_image(engine, progress, cache, force=force)
        if spec.provisions is not None:
            base = await _packages_image(engine, progress, spec, base, cache, force=force)
        files = box_files(spec)
        context = _context(_box_recipe(spec.image), {f"box/{path}": data for path, data in files.items()})
        arguments = {"BASE": base, "MODULES": " ".join(box_modules(files))}
        log = cache / f"box-{spec.name}.log"
        with _building(progress, reference, log):
            await engine.build(context, reference, arguments, _BUILD_S, log=log, labels=_box_labels(spec))
        progress(f"{reference}: built")
    return references


async def base_image(
    engine: DockerEngine, progress: Callable[[str], None], cache: Path, *, force: bool
) -> str:
    """Return the name of the base of all images; it is built unless it exists, or again with ``force``."""
    recipe = _recipe(_BASE)
    base = _base_reference()
    if not force and await engine.has_image(base):
        return base
    source = await _system(engine, progress, cache, force=force)
    log = cache / "base.log"
    with _building(progress, base, log):
        labels = image_labels(_BASE, "Debian with Python 3.11 and no setuid program, the base of all boxes")
        await engine.build(_context(recipe, {}), base, {"BASE": source}, _BUILD_S, log=log, labels=labels)
    return base


async def _packages_image(
    engine: DockerEngine,
    progress: Callable[[str], None],
    spec: EnvironmentSpec,
    base: str,
    cache: Path,
    *,
    force: bool,
) -> str:
    provisions = spec.provisions
    assert provisions is not None
    recipe = _recipe(_PACKAGES)
    reference = _packages_reference(spec.name, provisions, base)
    if not force and await engine.has_image(reference):
        return reference
    log = cache / f"packages-{spec.name}.log"
    with _building(progress, reference, log), tempfile.TemporaryFile() as context:
        await asyncio.to_thread(_write_context, context, recipe, provisions.folder)
        labels = image_labels(_PACKAGES, f"Packages and data of the environment {spec.name}")
        await engine.build(context, reference, {"BASE": base}, _PACKAGES_S, log=log, labels=labels)
    return reference


def _box_labels(spec: EnvironmentSpec) -> dict[str, str]:
    description = f"Boxes of the environment {spec.name}"
    return image_labels(spec.image, description, licensed=spec.provisions is None)


@contextmanager
def _building(progress: Callable[[str], None], reference: str, log: Path) -> Iterator[None]:
    """Report the build in the block: when it begins, and every ten seconds."""
    progress(f"{reference}: building; log: {log}")
    with WaitReport(progress, f"the build of {reference}; log: {log}"):
        yield


def parent_images(specs: Iterable[EnvironmentSpec]) -> list[str]:
    """Return the references of the images from which those of the environments are built."""
    base = _base_reference()
    packages = [
        _packages_reference(spec.name, spec.provisions, base) for spec in specs if spec.provisions is not None
    ]
    return [base, *packages]


def _base_reference() -> str:
    return f"{_BASE}:{digest(_recipe(_BASE))}"


def _packages_reference(name: str, provisions: Provisions, base: str) -> str:
    made_with = digest(_recipe(_PACKAGES), {"base": base.encode()})[:8]
    return f"{_PACKAGES}:{name}-{made_with}-{provisions.digest}"


async def _system(engine: DockerEngine, progress: Callable[[str], None], cache: Path, *, force: bool) -> str:
    """Return an image with Python 3.11, from the first source that has one.

    With ``force`` one that is there is fetched again, and taken as it is where that fails.
    """
    registry, tree = ":".join(_REGISTRY_BASE), ":".join(_TREE_BASE)
    found = [name for name in (registry, tree) if await engine.has_image(name)]
    if found and not force:
        return found[0]
    tarball = cache / _TARBALL
    if force or not tarball.exists():
        progress(f"asking the registry for {registry}")
        try:
            with WaitReport(progress, f"{registry} from the registry"):
                await engine.pull(*_REGISTRY_BASE, _REGISTRY_ANSWER_S, _PULL_S)
        except ServiceError as error:
            kept = registry in found
            instead = f"{registry} is kept as it is" if kept else "building one from Debian's packages"
            progress(f"no image from a registry ({error.detail}); {instead}")
            if kept:
                return registry
        else:
            return registry
    try:
        await _make_tarball(tarball, progress, force=force)
    except ServiceError as error:
        if tree not in found:
            raise
        progress(f"{tree} is kept as it is: {error.detail}")
        return tree
    progress(f"importing {tarball.name}")
    with WaitReport(progress, f"the Docker engine, which imports {tarball.name}"):
        await engine.load_tree(str(tarball), *_TREE_BASE, _BUILD_S)
    return tree


def base_recipe() -> dict[str, bytes]:
    """Return what the base image is made of, by name."""
    return {**_recipe(_BASE), _BASE_SCRIPT: (_RECIPES / _BASE_SCRIPT).read_bytes()}


async def base_tarball(
    progress: Callable[[str], None], cache: Path, engine: DockerEngine | None = None, *, force: bool = False
) -> Path:
    """Return the tar of a small system with Python 3.11; it is made unless the cache has it.

    An engine's base image is exported if there is one. With ``force`` it is made again.
    Raises ServiceError(SANDBOX_FAILED | STORAGE_FULL).
    """
    tarball = cache / _TARBALL
    if tarball.exists() and not force:
        return tarball
    await asyncio.to_thread(cache.mkdir, parents=True, exist_ok=True)
    if engine is not None:
        base = await base_image(engine, progress, cache, force=force)
        exported = cache / f"{base.replace(':', '-')}.tar"
        progress(f"{exported}: exporting {base}")
        with WaitReport(progress, f"the Docker engine, which exports {base}"):
            await engine.export(base, exported, _BUILD_S)
        return exported
    await _make_tarball(tarball, progress, force=force)
    return tarball


async def _make_tarball(tarball: Path, progress: Callable[[str], None], *, force: bool) -> None:
    """Make the tar of a system unless it is there; with ``force`` again, and keep it where that fails."""
    if not await asyncio.to_thread(tarball.exists):
        await _bootstrap(tarball, progress)
    elif force:
        fresh = tarball.with_name(f"fresh-{tarball.name}")
        await asyncio.to_thread(fresh.unlink, missing_ok=True)
        try:
            await _bootstrap(fresh, progress)
            fresh.replace(tarball)
        except ServiceError as error:
            progress(f"{tarball.name} is kept as it is: {error.detail}")


async def _bootstrap(tarball: Path, progress: Callable[[str], None]) -> None:
    script = _RECIPES / _BASE_SCRIPT
    if not script.is_file():
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"cannot build a base image: {script} is missing")
    process = await asyncio.create_subprocess_exec(
        "sh",
        str(script),
        str(tarball),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    log = tarball.with_suffix(".log")
    progress(f"building {tarball.name}, which takes some minutes; log: {log}")
    last = ""
    try:
        async with asyncio.timeout(_BOOTSTRAP_S):
            last = await copy_to_log(process.stdout, log, progress)
            status = await process.wait()
    except TimeoutError:
        last, status = f"not done within {_BOOTSTRAP_S:g} s, see {log}", -1
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if status != 0:
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"the base image could not be built: {last}")
    progress(last)


async def copy_to_log(
    output: asyncio.StreamReader,
    log: Path,
    progress: Callable[[str], None],
    every_s: float = PROGRESS_EVERY_S,
) -> str:
    """Write the output to a log, report progress every ``every_s`` seconds, and return the last line."""
    last, lines, reported = "", 0, time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        while True:
            try:
                async with asyncio.timeout(every_s):
                    line = await output.readline()
            except TimeoutError:
                line = None
            if line == b"":
                return last
            if line is not None:
                file.write(line)
                lines, last = lines + 1, line.decode(errors="replace").strip() or last
            if time.monotonic() - reported >= every_s:
                reported = time.monotonic()
                file.flush()
                progress(f"building the base image, {lines} lines so far: {last}")


def recipes_folder() -> Path:
    """Return the folder of the Dockerfiles and of the scripts that they copy."""
    return _RECIPES


def recipe_files(*names: str) -> dict[str, bytes]:
    """Return files of the recipes. Raises ServiceError(SANDBOX_FAILED) if one is missing."""
    try:
        return {name: (_RECIPES / name).read_bytes() for name in names}
    except OSError as error:
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"a recipe of images is missing: {error}") from error


def _box_recipe(image: str) -> dict[str, bytes]:
    """Return the Dockerfile of a box: the image's own where there is one, else the common one."""
    return _recipe(image if _dockerfile(image).is_file() else _COMMON)


def _dockerfile(image: str) -> Path:
    return _RECIPES / f"{image.removeprefix('sandbox-')}.Dockerfile"


def _recipe(image: str) -> dict[str, bytes]:
    """Return the Dockerfile of an image, by its name in a build context."""
    path = _dockerfile(image)
    try:
        return {"Dockerfile": path.read_bytes()}
    except OSError as error:
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"no Dockerfile for image {image}: {error}") from error


def _write_context(target: IO[bytes], recipe: Mapping[str, bytes], folder: Path) -> None:
    """Write a tar of a recipe and a prepared folder, which may be large."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in recipe.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        archive.add(folder, "environment")
    target.seek(0)


def _context(*parts: Mapping[str, bytes]) -> IO[bytes]:
    """Return a tar of the files, owned by root and readable by all; equal content gives equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for files in parts:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                entry.mode = 0o644
                archive.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer
