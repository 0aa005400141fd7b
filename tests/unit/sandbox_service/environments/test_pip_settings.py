import os
import sys
from pathlib import Path

import pytest

from sandbox_service.environments.pip_settings import uv_settings

MIRROR, OTHER = "https://mirror.example/simple", "https://other.example/simple"
PYTHON = Path(sys.executable)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Variables with which pip reads no file but its configuration in ``tmp_path``."""
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {MIRROR}\ncert = /srv/ca.pem\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "SSL_"))}
    return {**kept, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}


def test_uv_gets_the_index_and_the_certificates_of_pips_file(variables: dict[str, str]) -> None:
    found = uv_settings(PYTHON, variables)
    assert found == {"UV_DEFAULT_INDEX": MIRROR, "SSL_CERT_FILE": "/srv/ca.pem"}


def test_pips_variables_count_before_its_file(variables: dict[str, str]) -> None:
    variables |= {"PIP_INDEX_URL": OTHER}
    assert uv_settings(PYTHON, variables)["UV_DEFAULT_INDEX"] == OTHER


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_uvs_own_index_stays(variables: dict[str, str], name: str) -> None:
    variables |= {name: OTHER, "SSL_CERT_FILE": "/srv/other.pem"}
    assert uv_settings(PYTHON, variables) == {}


def test_without_pip_there_is_nothing_to_translate(tmp_path: Path) -> None:
    assert uv_settings(tmp_path / "python", {}) == {}
