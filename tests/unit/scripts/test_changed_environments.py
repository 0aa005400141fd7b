"""The environments that a branch changes, for the conformance suite in containers."""

import subprocess

import pytest

from scripts.changed_environments import (
    affected,
    affected_parts,
    changed_paths,
    environments,
    main,
    sample,
)

WORLDS = "sandbox_service/environments"
FILES = {
    f"{WORLDS}/chess/box/world.py": "from sandbox_service.environments.shared.box.games import Game\n",
    f"{WORLDS}/sums/box/world.py": "",
    f"{WORLDS}/shared/box/games.py": "",
    f"{WORLDS}/registry.py": "",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def git(project):
    """Runs git in the project, which has one commit on the branch ``main``."""

    def run(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    run("init", "-b", "main")
    run("add", ".")
    run("commit", "-m", "first")
    return run


def test_shared_code_is_no_environment(project):
    assert environments(project) == ["chess", "sums"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (f"{WORLDS}/sums/box/world.py", ["sums"]),
        (f"{WORLDS}/sums/setup/recipe.py", ["sums"]),
        (f"tests/unit/{WORLDS}/sums/box/test_world.py", ["sums"]),
        ("docker/sums.Dockerfile", ["sums"]),
        (f"{WORLDS}/shared/box/games.py", ["chess"]),
        (f"{WORLDS}/registry.py", []),
        ("docker/base.Dockerfile", []),
        ("docs/environments/sums.md", []),
    ],
)
def test_a_file_changes_the_environments_that_use_it(project, path, names):
    assert affected([path], project) == names


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("examples/shell/run.toml", ["shell"]),
        ("examples/sums.toml", []),
        ("examples/data/lines.jsonl", []),
        ("trainer/update/mesh.py", ["ranks"]),
        ("trainer/batches/journal.py", ["evolve", "killed_runs"]),
        ("sandbox_service/fleet/scaler.py", ["clusters", "scaling"]),
        ("trainer/reward/sides.py", ["counterparts"]),
        ("trainer/chat/template.py", []),
    ],
)
def test_a_file_changes_the_sampled_suites_that_test_it(project, path, names):
    (project / "examples/shell").mkdir(parents=True)
    (project / "examples/shell/requirements.txt").write_text("")
    assert affected_parts([path], project) == names


def test_the_sampled_suites_that_a_branch_changes_are_printed(project, git, capsys):
    (project / "trainer/update").mkdir(parents=True)
    (project / "trainer/update/mesh.py").write_text("")
    git("add", ".")
    git("commit", "-m", "second")
    assert main(["--parts", "main"], project) == 0
    assert capsys.readouterr().out == "ranks\n"


def test_a_branch_is_compared_with_its_merge_base(project, git):
    git("switch", "-c", "branch")
    (project / WORLDS / "sums/box/world.py").write_text("changed = 1\n")
    git("commit", "-am", "second")
    git("switch", "main")
    (project / WORLDS / "chess/box/world.py").write_text("not_of_the_branch = 1\n")
    git("commit", "-am", "third")
    git("switch", "branch")
    assert affected(changed_paths(project, "main"), project) == ["sums"]


def test_on_the_base_itself_the_last_commit_counts(project, git):
    (project / WORLDS / "sums/box/world.py").write_text("changed = 1\n")
    git("commit", "-am", "second")
    assert affected(changed_paths(project, "main"), project) == ["sums"]


def test_files_that_git_does_not_know_yet_are_changes(project, git):
    (project / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "-m", "second")
    git("switch", "-c", "branch")
    git("commit", "--allow-empty", "-m", "third")
    (project / WORLDS / "sums/box/new.py").touch()
    (project / WORLDS / "chess/box/new.log").touch()
    assert affected(changed_paths(project, "main"), project) == ["sums"]


def test_without_the_base_the_last_commit_counts_and_the_reason_is_printed(project, git, capsys):
    (project / WORLDS / "sums/box/world.py").write_text("changed = 1\n")
    git("commit", "-am", "second")
    assert main(["origin/main"], project) == 1
    printed = capsys.readouterr()
    assert printed.out == "sums\n"
    assert "WARNING: cannot compare with origin/main" in printed.err
    assert "taken instead: changes of the last commit" in printed.err


@pytest.mark.parametrize("words", [[], ["--parts"]])
def test_in_a_clone_of_one_commit_a_sample_is_printed_and_the_reason(project, git, capsys, words):
    assert main(["origin/main", *words], project) == 1
    printed = capsys.readouterr()
    assert len(printed.out.split()) == 2
    assert "taken instead: a sample of 2 names" in printed.err


def test_without_git_a_sample_is_printed(project, capsys):
    assert main([], project) == 1
    assert capsys.readouterr().out == "chess sums\n"


def test_a_sample_changes_with_the_commit():
    names = list("abcdefgh")
    assert sample(names, "1f2e") == sample(names, "1f2e")
    assert len({tuple(sample(names, str(commit))) for commit in range(9)}) > 1
