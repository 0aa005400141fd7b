import pytest

from sandbox_service.environments.base import BoxResources
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.hardening import SCRATCH, WORKSPACE, tmpfs_options

LIMITS = SandboxLimits(memory_mib=512, cpus=1.0, pids=128, workspace_mib=64, workspace_inodes=8192)


def test_limits_that_suffice_stay() -> None:
    assert LIMITS.raised_to(BoxResources()) == LIMITS
    small = BoxResources(memory_mib=100, cpus=0.5, pids=8, storage_mib=10)
    assert LIMITS.raised_to(small).largest_folder_mib == LIMITS.workspace_mib


def test_limits_are_raised_to_what_a_box_needs() -> None:
    raised = LIMITS.raised_to(BoxResources(memory_mib=2048, cpus=2.5, pids=300))
    assert (raised.memory_mib, raised.cpus, raised.pids) == (2048, 2.5, 300)
    assert (raised.largest_folder_mib, raised.open_files) == (64, LIMITS.open_files)


@pytest.mark.parametrize(
    ("memory_mib", "storage_mib", "has_mib"), [(0, 10240, 64), (2048, 100, 100), (2048, 10240, 448)]
)
def test_the_workspaces_folder_alone_grows_and_leaves_room_in_memory(
    memory_mib: int, storage_mib: int, has_mib: int
) -> None:
    raised = LIMITS.raised_to(BoxResources(memory_mib=memory_mib, storage_mib=storage_mib))
    assert raised.largest_folder_mib == has_mib
    assert f"size={has_mib}m,nr_inodes={128 * has_mib}," in tmpfs_options(WORKSPACE, raised)
    for path in SCRATCH:
        assert tmpfs_options(path, raised) == tmpfs_options(path, LIMITS)
