"""The modules that a preparation imports are found without running it."""

from pathlib import Path

import pytest

from sandbox_service.environments.preparation_modules import preparation_modules


def modules(folder: Path, **files: str) -> set[str]:
    """Return the modules of a preparation; of a file's name, ``__`` is its folder's end."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return set(preparation_modules(folder))


@pytest.mark.parametrize(
    "statement",
    [
        "import box.judges",
        "from box import judges",
        "from box.judges import JUDGES",
        "def main():\n    from box import judges",
        "try:\n    pass\nexcept ValueError:\n    import box.judges",
        "if TYPE_CHECKING:\n    import box.other\nelse:\n    from box.judges import JUDGES",
        "match 1:\n    case 1:\n        import box.judges",
    ],
)
def test_every_import_at_run_time_is_followed(tmp_path: Path, statement: str) -> None:
    files = {"box__judges": "import json", "box__other": "", "box__world": ""}
    assert modules(tmp_path, setup__prepare=statement, **files) == {"setup.prepare", "box.judges"}


def test_imports_of_neighbours_and_packages_are_followed(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "__init__.py").write_text("from .first import A")
    (tmp_path / "__init__.py").write_text("import setup.never")
    found = modules(
        tmp_path,
        setup__prepare="from . import pools",
        setup__pools="from box.judges import JUDGES",
        setup__never="",
        box__judges="from .arithmetic import read",
        box__arithmetic="from . import judges",
        box__first="",
    )
    expected = {"setup.prepare", "setup.pools", "box", "box.first", "box.judges", "box.arithmetic"}
    assert found == expected


@pytest.mark.parametrize(
    "text", ["def", "\0", "from ... import x\nfrom .. import setup", "import absent.box"]
)
def test_a_module_that_cannot_run_imports_nothing(tmp_path: Path, text: str) -> None:
    assert modules(tmp_path, setup__prepare=text) == {"setup.prepare"}


def test_an_environment_without_a_preparation_has_no_modules(tmp_path: Path) -> None:
    assert modules(tmp_path, box__judges="") == set()
