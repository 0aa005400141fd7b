import tarfile
from pathlib import Path

import pytest

from sandbox_service.environments.swe_mutants.setup import sources
from sandbox_service.environments.swe_mutants.setup.sources import Package, lay_out, read_packages

SETUP = Path(sources.__file__).parent
PACKAGES = read_packages(SETUP.parent / "data" / "packages.toml")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_source_of_a_package_is_taken_for_its_tests(package: Package) -> None:
    assert not set(package.sources) & set(package.tests)


def test_every_package_has_a_pinned_distribution_with_a_digest() -> None:
    lines = (SETUP / "distributions.txt").read_text().splitlines()
    pinned = {line.split(" ")[0] for line in lines if "--hash=sha256:" in line}
    assert pinned == {f"{package.name}=={package.version}" for package in PACKAGES}


def test_packages_of_one_split_are_not_in_the_other() -> None:
    assert {package.split for package in PACKAGES} == {"train", "test"}
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)


def test_tests_inside_of_a_package_are_hidden_and_its_data_is_in_both_trees(tmp_path: Path) -> None:
    top = tmp_path / "demo-1.0"
    files = ("demo/__init__.py", "demo/table.txt", "demo/tests/test_demo.py", "LICENSE", "more/__init__.py")
    files += ("demo/tests/test_network.py",)
    for name in files:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    with tarfile.open(tmp_path / "demo-1.0.tar.gz", "w:gz") as archive:
        archive.add(top, "demo-1.0")
    demo = Package(
        "demo",
        "1.0",
        "MIT",
        ("demo", "more"),
        ("demo/tests",),
        "train",
        1,
        left_out=("demo/tests/test_network.py",),
    )
    (tmp_path / "out").mkdir()
    trees = lay_out(demo, tmp_path, tmp_path / "out")
    visible, hidden = (
        {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()} for tree in trees
    )
    assert visible == {"demo/__init__.py", "demo/table.txt", "more/__init__.py", "LICENSE"}
    assert hidden == {"demo/table.txt", "demo/tests/test_demo.py"}
