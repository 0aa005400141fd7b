import pytest

from sandbox_service.environments.base import BoxResources
from sandbox_service.sandboxes.base import SandboxLimits

LIMITS = SandboxLimits(memory_mib=512, cpus=1.0, pids=128, workspace_mib=64, workspace_inodes=8192)


def test_limits_that_suffice_stay() -> None:
    assert LIMITS.raised_to(BoxResources()) == LIMITS
    assert LIMITS.raised_to(BoxResources(memory_mib=100, cpus=0.5, pids=8, storage_mib=10)) == LIMITS


def test_limits_are_raised_to_what_a_box_needs() -> None:
    raised = LIMITS.raised_to(BoxResources(memory_mib=2048, cpus=2.5, pids=300))
    assert (raised.memory_mib, raised.cpus, raised.pids) == (2048, 2.5, 300)
    assert (raised.workspace_mib, raised.workspace_inodes) == (64, 8192)
    assert raised.open_files == LIMITS.open_files


@pytest.mark.parametrize(
    ("memory_mib", "storage_mib", "has_mib"), [(0, 128, 128), (0, 10240, 256), (2048, 10240, 1024)]
)
def test_storage_lies_in_memory_and_files_grow_with_it(
    memory_mib: int, storage_mib: int, has_mib: int
) -> None:
    raised = LIMITS.raised_to(BoxResources(memory_mib=memory_mib, storage_mib=storage_mib))
    assert (raised.workspace_mib, raised.workspace_inodes) == (has_mib, 128 * has_mib)
