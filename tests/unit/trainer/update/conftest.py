"""Small tensors are done soonest by one thread."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Threads wait for each other longer than they work, the more so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
