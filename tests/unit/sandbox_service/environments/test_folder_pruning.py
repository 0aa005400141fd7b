from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from local_processes.waiting import Deadline, wait_until
from sandbox_service.environments.folder_pruning import prune_folders
from sandbox_service.environments.in_use import UseMarks
from sandbox_service.environments.installation import locked

NEW, OLD = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def root(tmp_path):
    for name in (f"code-{NEW}", f"code-{OLD}", f"code-x-{OLD}", f"code-{OLD}.kept", "code-draft-abcd_123"):
        (tmp_path / name / "packages").mkdir(parents=True)
        (tmp_path / name / "packages" / "module.py").write_text("x" * 5000)
    (tmp_path / f"code-{NEW}.kept").mkdir()
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "code.operator").write_text("/srv")
    return tmp_path


def names(paths):
    return sorted(path.name for path in paths)


def test_everything_but_the_kept_recipes_goes(root):
    done = prune_folders(root, [root / f"code-{NEW}"])
    assert names(done.removed) == sorted(
        [f"code-{OLD}", f"code-{OLD}.kept", "code-draft-abcd_123", f"code-x-{OLD}"]
    )
    left = {path.name for path in root.iterdir() if not path.name.endswith(".lock")}
    assert left == {f"code-{NEW}", f"code-{NEW}.kept", "unrelated", "code.operator"}
    assert done.size >= 4 * 5000


def test_an_environment_whose_name_begins_with_the_name_of_another_is_not_confused_with_it(root):
    done = prune_folders(root, [root / f"code-{NEW}"], names={"code"})
    assert f"code-x-{OLD}" not in names(done.removed)
    assert (root / f"code-x-{OLD}").is_dir()


def test_spared_environments_and_dry_runs_change_nothing(root):
    before = names(root.iterdir())
    assert prune_folders(root, [], spared_names={"code", "code-x"}).removed == []
    assert len(prune_folders(root, [], dry_run=True).removed) == 6
    assert [name for name in names(root.iterdir()) if not name.endswith(".lock")] == before


def test_a_dry_run_does_not_wait_for_a_set_up(root):
    with locked(root, "code", print):
        assert prune_folders(root, [], names={"code"}, dry_run=True).removed


def test_a_clean_up_says_which_set_up_it_waits_for(root):
    said = []
    with ThreadPoolExecutor(1) as other, ExitStack() as holding:
        holding.enter_context(locked(root, "code", print))
        pruning = other.submit(prune_folders, root, [], names={"code"}, report=said.append)
        wait_until(lambda: said, Deadline.after(60))
        holding.close()
        assert pruning.result(60).removed
    assert said == [f"code: waiting for another set-up or clean-up of it, which has locked {root}/code.lock"]


def test_a_former_result_stays_if_its_successor_did_not_take_its_place(root):
    former = root / f"code-{NEW}.former"
    (root / f"code-{NEW}").rename(former)
    assert former.name not in names(prune_folders(root, [root / f"code-{NEW}"]).removed)
    (root / f"code-{NEW}").mkdir()
    assert names(prune_folders(root, [root / f"code-{NEW}"]).removed) == [former.name]


def test_a_folder_that_a_service_uses_stays_until_the_service_has_ended(root):
    service = UseMarks()
    service.add(root / f"code-{OLD}")
    done = prune_folders(root, [root / f"code-{NEW}"], names={"code"})
    assert names(done.in_use) == [f"code-{OLD}"]
    assert (root / f"code-{OLD}" / "packages" / "module.py").is_file()
    service.close()
    assert names(prune_folders(root, [root / f"code-{NEW}"], names={"code"}).removed) == [f"code-{OLD}"]
