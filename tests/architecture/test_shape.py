"""The shape of the code: sizes, names and public lists that a newcomer can rely on."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "sandbox_service",
    "clients",
    "trainer",
    "deploy",
    "service_cli",
    "sandbox_settings",
    "local_processes",
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
BANNED = {"utils", "util", "common", "misc", "helpers", "manager"}

UNTYPED_DICTS = {
    "sandbox_service/gateway/openapi.py": "FastAPI's own type of an OpenAPI document",
    "sandbox_service/runner/config.py": "parsed JSON, before it is checked",
    "sandbox_service/runner/io/packets.py": "JSON of the runner, which has the standard library only",
    "sandbox_service/runner/messages/codec.py": "JSON of the runner, which has the standard library only",
    "sandbox_service/runner/world.py": "JSON of the runner, which has the standard library only",
    "sandbox_service/sandboxes/docker.py": "keyword arguments of the Docker SDK",
    "sandbox_service/sandboxes/seccomp.py": "a profile of the Docker engine",
    "sandbox_service/supervisor/instance_setup.py": "meta of a frame",
    "sandbox_service/supervisor/operations.py": "meta of a frame",
    "sandbox_service/wire/frames.py": "meta of a frame",
    "trainer/engines/actor.py": "receipts of a weight transfer",
    "trainer/engines/placement.py": "keyword arguments of Ray",
    "trainer/launch/folder.py": "parsed TOML, before it is checked",
    "trainer/update/checkpoint.py": "state of a torch optimizer",
    "trainer/update/pretrained.py": "files of safetensors, which has no types",
    "trainer/weight_sync/gpu_transfer.py": "messages of vLLM's weight transfer",
    "trainer/weight_sync/native.py": "messages of vLLM's weight transfer",
    "trainer/weight_sync/receipt.py": "receipts of a weight transfer",
}
"""Files outside of the environments that use ``dict[str, Any]``, and why; the list only becomes shorter."""

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


@each_source
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@each_source
def test_no_function_is_longer_than_60_lines(path: Path) -> None:
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 60
    ]
    assert not long


@each_source
def test_a_file_is_named_after_a_noun_of_the_domain(path: Path) -> None:
    assert path.stem not in BANNED


@each_source
def test_public_names_are_listed_in_order_and_exist(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    ]
    for names in listed:
        assert list(names) == sorted(names, key=_isort_key)
        assert len(set(names)) == len(names)


def _isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order in which ruff sorts ``__all__``."""
    if name.isupper() and len(name) > 1:
        return (0, name)
    return (1, name) if name[:1].isupper() else (2, name)


@each_source
def test_untyped_dictionaries_stay_where_foreign_data_enters(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    untyped = (
        any(
            isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
            for node in ast.walk(ast.parse(path.read_text()))
        )
        or '"dict[str, Any]"' in path.read_text()
    )
    if not place.startswith("sandbox_service/environments/"):
        assert untyped == (place in UNTYPED_DICTS), "use JsonObject or a class, or shorten the list"


@each_source
def test_a_logger_is_named_logger(path: Path) -> None:
    """The service logs events through structlog, every other package through the standard library."""
    tree = ast.parse(path.read_text())
    makers = {"get_logger" if path.is_relative_to(ROOT / "sandbox_service") else "logging.getLogger"}
    made = {
        node: ast.unparse(node.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] in ("getLogger", "get_logger")
        and path.name != "telemetry.py"
    }
    assert all(ast.unparse(node.targets[0]) == "logger" and node in tree.body for node in made)
    assert set(made.values()) <= makers


def test_most_files_are_short() -> None:
    sizes = sorted(len(path.read_text().splitlines()) for path in SOURCES if path.stem != "__init__")
    assert sizes[len(sizes) // 2] <= 150


def test_the_docker_folder_holds_no_python() -> None:
    assert not list((ROOT / "docker").rglob("*.py"))


def test_the_recipes_of_images_are_the_docker_folder() -> None:
    assert (ROOT / "sandbox_service" / "sandboxes" / "recipes").resolve() == ROOT / "docker"
