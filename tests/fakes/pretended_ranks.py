"""One process that is a rank of many: collectives do nothing, so that shapes and memory are real."""

import contextlib

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextlib.contextmanager
def one_of(world):
    """This process is rank 0 of ``world`` ranks."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
