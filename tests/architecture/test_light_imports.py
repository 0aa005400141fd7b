"""Imports of light packages load no heavy ones; a trainer's machine has neither Ray nor FastAPI."""

import subprocess
import sys

import pytest

HEAVY = {"ray", "fastapi", "starlette", "torch", "docker", "sqlalchemy", "structlog", "typer", "pyarrow"}
FOR_A_FRAMEWORK = "sandbox_client.adapters."
"""Each of its modules needs the framework that it is named after."""


@pytest.mark.parametrize(
    "package",
    ["sandbox_contract", "sandbox_settings", "sandbox_plugins", "local_processes", "sandbox_client"],
)
def test_importing_it_stays_light(package: str) -> None:
    script = (
        "import importlib, pkgutil, sys\n"
        f"package = importlib.import_module({package!r})\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        f"    if not module.name.startswith({FOR_A_FRAMEWORK!r}):\n"
        "        importlib.import_module(module.name)\n"
        "print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(loaded.stdout.split())


@pytest.mark.parametrize("module", ["trainer.config", "trainer.errors", "trainer.types", "trainer.cli.app"])
def test_importing_it_loads_neither_torch_nor_ray_nor_an_engine(module: str) -> None:
    script = (
        "import importlib, pkgutil, sys\n"
        f"module = importlib.import_module({module!r})\n"
        "for below in pkgutil.walk_packages(getattr(module, '__path__', ()), module.__name__ + '.'):\n"
        "    importlib.import_module(below.name)\n"
        "print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "ray", "vllm", "transformers", "plotly", "tensorboard"} & set(loaded.stdout.split())


def test_processes_of_a_run_that_hold_no_weights_load_no_torch() -> None:
    """Otherwise each process would take seconds longer to start, and 300 MB more."""
    modules = "trainer.loop.entry, trainer.batches.actor, trainer.batches.worker_actor, trainer.engines.actor"
    script = f"import sys, {modules}\nprint(' '.join(sys.modules))\n"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "peft", "vllm"} & set(loaded.stdout.split())


@pytest.mark.parametrize("package", ["sandbox_service.runner", "sandbox_service.wire"])
def test_what_runs_in_every_box_needs_the_standard_library_only(package: str) -> None:
    script = (
        "import importlib, pkgutil, sys\n"
        "before = set(sys.modules)\n"
        f"package = importlib.import_module({package!r})\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(' '.join(sorted({name.split('.')[0] for name in set(sys.modules) - before})))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()) <= set(sys.stdlib_module_names) | {"sandbox_service"}
