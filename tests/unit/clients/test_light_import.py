import subprocess
import sys

import pytest

import clients

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
    "code", ["import clients", "; ".join(f"import sandbox_service.contract.{name}" for name in CONTRACT)]
)
def test_importing_clients_or_contract_loads_nothing_heavy(code: str) -> None:
    roots = {name.partition(".")[0] for name in loaded_by(code)}
    assert "pydantic" in roots
    assert not set(HEAVY) & roots


def test_of_the_service_the_clients_see_the_contract_only() -> None:
    ours = [name for name in loaded_by("import clients") if name.startswith("sandbox_service")]
    assert all(name == "sandbox_service" or name.startswith("sandbox_service.contract") for name in ours)


def test_public_names_are_sorted_and_exist() -> None:
    assert list(clients.__all__) == sorted(clients.__all__)
    assert all(hasattr(clients, name) for name in clients.__all__)
