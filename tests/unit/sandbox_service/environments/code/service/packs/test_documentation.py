import re
from pathlib import Path
from typing import Any

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.task import CodeTask

PAGE = Path(__file__).parents[7] / "docs" / "tasks.md"


def example() -> str:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(block)


def test_the_documented_example_loads_and_its_references_pass(tmp_path: Path, play: Any, submit: Any) -> None:
    path = tmp_path / "invoices.jsonl"
    path.write_text(example())
    catalog = CodeCatalog(CodeConfig(task_files=(path,)))
    assert catalog.task_ids("invoices") == ("invoices/open-total", "invoices/check-digit")
    for task_id in catalog.task_ids("invoices"):
        assert play(catalog, task_id, catalog.reference(task_id)).success
        assert play(catalog, task_id, [submit]).score == 0


def test_the_page_names_every_field_and_grader() -> None:
    page = PAGE.read_text()
    schema = CodeTask.model_json_schema()
    for field in schema["properties"]:
        assert f"`{field}`" in page
    for name, grader in schema["$defs"].items():
        if name.endswith("Grader"):
            kind = grader["properties"]["kind"]["const"]
            (row,) = re.findall(rf"^\| `{kind}` .*$", page, re.MULTILINE)
            assert all(f"`{field}`" in row for field in grader["properties"] if field != "kind")
