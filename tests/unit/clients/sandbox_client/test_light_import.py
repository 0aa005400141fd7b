import subprocess
import sys

import pytest

import sandbox_client

HEAVY = (
    "ray",
    "fastapi",
    "starlette",
    "uvicorn",
    "docker",
    "sqlalchemy",
    "torch",
    "transformers",
    "vllm",
    "pyarrow",
)
CONTRACT = ("batches", "episodes", "inspection", "messages", "problems")


def loaded_by(code: str) -> list[str]:
    check = f"{code}; import sys; print(*sys.modules)"
    return subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    "code", ["import sandbox_client", "; ".join(f"import sandbox_contract.{name}" for name in CONTRACT)]
)
def test_importing_the_client_or_the_contract_loads_nothing_heavy(code: str) -> None:
    roots = {name.partition(".")[0] for name in loaded_by(code)}
    assert "pydantic" in roots
    assert not set(HEAVY) & roots


def test_importing_the_client_loads_nothing_of_the_service() -> None:
    roots = {name.partition(".")[0] for name in loaded_by("import sandbox_client")}
    assert not {"sandbox_service", "trainer", "deploy", "clients"} & roots


def test_public_names_are_sorted_and_exist() -> None:
    assert list(sandbox_client.__all__) == sorted(sandbox_client.__all__)
    assert all(hasattr(sandbox_client, name) for name in sandbox_client.__all__)
