"""Write a CycloneDX bill of materials of a built image: its Debian and Python packages.

    python -m scripts.image_sbom IMAGE [FOLDER]

The packages are those of the image's own file system, which the engine's command `docker` exports. The same
image gives the same file. `make image-sbom IMAGE=...` runs this with the library that it needs
(scripts/supply_tools.txt); prints the file's path and the number of packages.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from scripts.image_packages import DEB, ImagePackage, image_packages

FOLDER = Path("var/sbom")
PLACE = "training-sandbox:place"
"""Property that names where a package is recorded in the image."""
_TITLE = "org.opencontainers.image.title"
_ASK_S = 60
_EXPORT_S = 1800


def bill(image: Mapping[str, Any], packages: Mapping[ImagePackage, list[str]]) -> str:
    """Return the bill of materials as JSON; ``image`` is what the engine says of the image."""
    labels = image["Config"].get("Labels") or {}
    name = image["RepoTags"][0] if image["RepoTags"] else image["Id"]
    bom = Bom(
        components=[_component(package, places) for package, places in packages.items()],
        serial_number=uuid5(NAMESPACE_OID, image["Id"]),
    )
    # The engine writes more digits than a second has microseconds.
    created = re.sub(r"(\.\d{6})\d*", r"\1", image["Created"]).replace("Z", "+00:00")
    bom.metadata.timestamp = datetime.fromisoformat(created)
    bom.metadata.component = Component(
        name=labels.get(_TITLE, name.partition(":")[0]),
        version=image["Id"],
        type=ComponentType.CONTAINER,
        bom_ref=name,
        properties=[Property(name=label, value=value) for label, value in sorted(labels.items())],
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _component(package: ImagePackage, places: list[str]) -> Component:
    namespace, qualifiers = None, {}
    if package.kind == DEB:
        namespace = package.distribution.partition("-")[0] or "debian"
        named = {"arch": package.architecture, "distro": package.distribution}
        qualifiers = {name: value for name, value in named.items() if value}
    url = PackageURL(package.kind, namespace, package.name, package.version, qualifiers)
    return Component(
        name=package.name,
        version=package.version,
        purl=url,
        bom_ref=url.to_string(),
        licenses=[LicenseFactory().make_from_string(package.licence)] if package.licence else [],
        properties=[Property(name=PLACE, value=place) for place in places],
    )


def inspect(reference: str) -> dict[str, Any]:
    """Return what the engine says of an image. Raises CalledProcessError."""
    words = ["docker", "image", "inspect", reference]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=_ASK_S)
    described: dict[str, Any] = json.loads(done.stdout)[0]
    return described


def packages_of(reference: str) -> dict[ImagePackage, list[str]]:
    """Return the packages in an image. Raises CalledProcessError."""
    # Never started: the command is that of an image without one, such as a base.
    words = ["docker", "create", "--network=none", reference, "true"]
    made = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=_ASK_S)
    container = made.stdout.strip()
    try:
        words = ["timeout", str(_EXPORT_S), "docker", "export", container]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as export:
            assert export.stdout is not None
            found = image_packages(export.stdout)
            # What is after the tar's end: the engine would wait for a reader.
            export.stdout.read()
        if export.returncode != 0:
            raise subprocess.CalledProcessError(export.returncode, words)
    finally:
        subprocess.run(
            ["docker", "rm", "--force", "--volumes", container],
            stdout=subprocess.PIPE,
            check=False,
            timeout=_ASK_S,
        )
    return found


def main() -> int:
    """Write the bill of the image that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args()
    packages = packages_of(options.image)
    text = bill(inspect(options.image), packages)
    file = options.folder / f"{re.sub(r'[^a-zA-Z0-9_.-]', '_', options.image)}.cdx.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")
    debian = sum(package.kind == DEB for package in packages)
    print(f"{file}: {debian} packages of Debian, {len(packages) - debian} of Python")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
