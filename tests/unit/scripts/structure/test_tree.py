"""The files that are measured, and the package in which each is counted."""

import pytest

from scripts.structure.tree import OTHER, TESTS, TreeError, product_packages, read_pages, read_tree

from .made_up_tree import write_tree

FILES = {
    "shop/__init__.py": "",
    "shop/tills/__init__.py": "",
    "shop/tills/till.py": "X = 1\n",
    "bank/__init__.py": "",
    "tests/unit/test_till.py": "",
    "conftest.py": "",
    "scripts/install.py": "",
    "var/left.py": "",
    ".venv/lib/other.py": "",
}


def test_files_are_sorted_into_product_packages_tests_and_the_rest(tmp_path):
    groups = {file.place: file.group for file in read_tree(write_tree(tmp_path, FILES))}
    assert groups == {
        "shop/__init__.py": "shop",
        "shop/tills/__init__.py": "shop",
        "shop/tills/till.py": "shop",
        "bank/__init__.py": "bank",
        "tests/unit/test_till.py": TESTS,
        "conftest.py": TESTS,
        "scripts/install.py": OTHER,
    }


def test_a_greater_depth_counts_subpackages_apart(tmp_path):
    files = read_tree(write_tree(tmp_path, FILES), depth=2)
    assert {file.group for file in files if file.is_product} == {"shop", "shop.tills", "bank"}


def test_a_module_is_named_as_others_import_it(tmp_path):
    modules = {file.place: file.module for file in read_tree(write_tree(tmp_path, FILES))}
    assert modules["shop/tills/till.py"] == "shop.tills.till"
    assert modules["shop/tills/__init__.py"] == "shop.tills"


@pytest.mark.parametrize(
    ("project", "files", "expected"),
    [
        pytest.param(
            '[tool.setuptools.packages.find]\nwhere = ["src"]\n', ["src/shop"], ["shop"], id="below src"
        ),
        pytest.param(
            '[tool.setuptools]\npackages = ["shop", "shop.tills"]\n', ["shop"], ["shop"], id="a list"
        ),
        pytest.param(
            '[tool.setuptools]\npackages = ["shop_client"]\npackage-dir = {shop_client = "clients"}\n',
            ["clients"],
            ["shop_client"],
            id="a list with folders",
        ),
        pytest.param(
            '[tool.setuptools.packages.find]\ninclude = ["shop*"]\nexclude = ["shop_old*"]\n',
            ["shop", "shop_old", "plans"],
            ["shop"],
            id="patterns",
        ),
    ],
)
def test_packages_are_those_that_the_project_installs(tmp_path, project, files, expected):
    write_tree(tmp_path, {f"{folder}/__init__.py": "" for folder in files}, project)
    assert sorted(product_packages(tmp_path)) == expected


def test_a_distribution_in_a_folder_of_its_own_is_product_too(tmp_path):
    write_tree(tmp_path, FILES)
    client = {"shop_client/__init__.py": "", "shop_client/calls.py": ""}
    write_tree(tmp_path / "clients", client, '[tool.setuptools]\npackages = ["shop_client"]\n')
    write_tree(tmp_path / "tests/made", {"made/__init__.py": ""}, "[tool.setuptools.packages.find]\n")
    assert list(product_packages(tmp_path)) == ["bank", "shop", "shop_client"]
    modules = {file.place: file.module for file in read_tree(tmp_path)}
    assert modules["clients/shop_client/calls.py"] == "shop_client.calls"


def test_a_folder_without_a_project_is_refused_with_what_to_pass(tmp_path):
    with pytest.raises(TreeError, match="pass --tree PATH of a checkout"):
        read_tree(write_tree(tmp_path, FILES, "[project]\nname = 'shop'\n"))


def test_the_pages_are_the_readme_contributing_and_docs(tmp_path):
    pages = {"README.md": "a", "docs/deep/page.md": "b", "notes.md": "c", "shop/README.md": "d"}
    assert read_pages(write_tree(tmp_path, pages)) == {"README.md": "a", "docs/deep/page.md": "b"}
