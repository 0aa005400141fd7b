"""The bill of materials of a real image, made and checked by the library of CycloneDX."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from sandbox_service.sandboxes.image_labels import PREFIX
from sandbox_service.sandboxes.images import image_reference
from tests.harness.boxes import ECHO, need_engine
from tests.harness.tool_environments import supply_python

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
CHECK = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_engine()
    folder = tmp_path_factory.mktemp("sbom")
    run("-m", "scripts.image_sbom", image_reference(ECHO), str(folder))
    (written,) = folder.iterdir()
    return written


def run(*words: str) -> None:
    done = subprocess.run(
        [supply_python(), *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_bill_keeps_the_schema(file: Path) -> None:
    run("-c", CHECK, str(file))


def test_debians_packages_are_listed_with_urls_that_scanners_read(file: Path) -> None:
    components = json.loads(file.read_text())["components"]
    (bash,) = [each for each in components if each["name"] == "bash"]
    assert bash["purl"].startswith(f"pkg:deb/debian/bash@{quote(bash['version'])}?arch=")
    assert "distro=debian-" in bash["purl"]


def test_the_image_is_named_by_its_content(file: Path) -> None:
    described = json.loads(file.read_text())["metadata"]["component"]
    assert described["type"] == "container"
    assert described["version"].startswith("sha256:")
    labels = {each["name"]: each["value"] for each in described.get("properties", [])}
    assert labels.get(f"{PREFIX}title", "sandbox-code") == "sandbox-code"


def test_the_same_image_gives_the_same_file(file: Path, tmp_path: Path) -> None:
    run("-m", "scripts.image_sbom", image_reference(ECHO), str(tmp_path))
    assert (tmp_path / file.name).read_bytes() == file.read_bytes()
