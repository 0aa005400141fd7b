"""The shape of the code: sizes, names and public lists that a newcomer can rely on."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "sandbox_service",
    "clients",
    "trainer",
    "deploy",
    "service_cli",
    "sandbox_conformance",
    "sandbox_plugins",
    "sandbox_settings",
    "local_processes",
    "page_styles",
)
SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "build" not in path.parts  # what `pip install ./clients` leaves
)
BANNED = {"utils", "util", "common", "misc", "helpers", "manager"}
TREES = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES}

UNTYPED_DICTS = {
    "sandbox_conformance/subject.py": "bodies of requests and answers, as they are sent",
    "sandbox_service/gateway/openapi.py": "FastAPI's own type of an OpenAPI document",
    "sandbox_service/runner/config.py": "parsed JSON, before it is checked",
    "sandbox_service/sandboxes/docker.py": "keyword arguments of the Docker SDK",
    "sandbox_service/sandboxes/docker_images.py": "keyword arguments and answers of the Docker SDK",
    "sandbox_service/sandboxes/seccomp.py": "a profile of the Docker engine",
    "sandbox_service/supervisor/instance_setup.py": "meta of a frame",
    "sandbox_service/supervisor/operations.py": "meta of a frame",
    "sandbox_service/wire/frames.py": "meta of a frame",
    "sandbox_service/wire/json_types.py": "JsonObject inside of a box, which has the standard library only",
    "trainer/engines/actor.py": "receipts of a weight transfer",
    "trainer/engines/placement.py": "keyword arguments of Ray",
    "trainer/launch/folder.py": "parsed TOML, before it is checked",
    "trainer/update/checkpoint.py": "state of a torch optimizer",
    "trainer/model_gateway/dialects/responses.py": "items of a request, before they are messages",
    "trainer/update/pretrained.py": "files of safetensors, which has no types",
    "trainer/weight_sync/gpu_transfer.py": "messages of vLLM's weight transfer",
    "trainer/weight_sync/vllm_transfer.py": "messages of vLLM's weight transfer",
    "trainer/weight_sync/receipt.py": "receipts of a weight transfer",
}
"""Files outside of the environments that use ``dict[str, Any]``, and why; the list only becomes shorter."""


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{name}: {node.name}: {node.end_lineno - node.lineno + 1}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 60
    ]
    assert long == []


def test_a_file_is_named_after_a_noun_of_the_domain() -> None:
    assert [str(path) for path in SOURCES if path.stem in BANNED] == []


def test_public_names_are_listed_in_order_and_once() -> None:
    for name, tree in TREES.items():
        listed = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
        ]
        for names in listed:
            assert list(names) == sorted(set(names), key=_isort_key), name


def _isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order in which ruff sorts ``__all__``."""
    if name.isupper() and len(name) > 1:
        return (0, name)
    return (1, name) if name[:1].isupper() else (2, name)


def test_untyped_dictionaries_stay_where_foreign_data_enters() -> None:
    """Use JsonObject or a class instead; a file that no longer has one leaves the list."""
    untyped = {
        name
        for name, tree in TREES.items()
        if not name.startswith("sandbox_service/environments/")
        and (
            any(
                isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
                for node in ast.walk(tree)
            )
            or '"dict[str, Any]"' in (ROOT / name).read_text()
        )
    }
    assert untyped == set(UNTYPED_DICTS)


def test_json_objects_have_one_type_inside_of_boxes_and_one_outside() -> None:
    defining = {
        name
        for name, tree in TREES.items()
        for node in tree.body
        if (isinstance(node, ast.Assign) and "JsonObject" in map(ast.unparse, node.targets))
        or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "JsonObject")
    }
    assert defining == {"clients/sandbox_contract/base.py", "sandbox_service/wire/json_types.py"}


def test_a_logger_is_named_logger() -> None:
    """The service logs events through structlog, every other package through the standard library."""
    for name, tree in TREES.items():
        maker = "get_logger" if name.startswith("sandbox_service/") else "logging.getLogger"
        made = {
            node: ast.unparse(node.value.func)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).rpartition(".")[2] in ("getLogger", "get_logger")
            and Path(name).name != "telemetry.py"
        }
        assert all(ast.unparse(node.targets[0]) == "logger" and node in tree.body for node in made), name
        assert set(made.values()) <= {maker}, name


def test_most_files_are_short() -> None:
    sizes = sorted(len(path.read_text().splitlines()) for path in SOURCES if path.stem != "__init__")
    assert sizes[len(sizes) // 2] <= 150


def test_the_docker_folder_holds_no_python() -> None:
    assert not list((ROOT / "docker").rglob("*.py"))


def test_the_recipes_of_images_are_the_docker_folder() -> None:
    assert (ROOT / "sandbox_service" / "sandboxes" / "recipes").resolve() == ROOT / "docker"
