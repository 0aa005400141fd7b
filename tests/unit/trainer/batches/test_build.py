"""A batch producer that does not start leaves nothing open."""

import pytest

from tests.harness.tiny_chat import tiny_folder
from trainer.batches.build import build
from trainer.config import RunConfig
from trainer.errors import ServiceUnavailable


class GoneService:
    """A client that reaches no service."""

    def __init__(self, close):
        self.aclose = close

    async def get_env_profile(self, environment, split=None, *, offset=0, limit=None):
        raise ServiceUnavailable("no service answers")


async def closed_by(folder, failing=None):
    """The closed parts, in order, where the service does not answer; closing ``failing`` raises."""
    closed = []

    def closing(name):
        async def close():
            closed.append(name)
            if name == failing:
                raise OSError(f"the {name} cannot be closed")

        return close

    client, policy = GoneService(closing("client")), object()
    with pytest.raises(OSError if failing else ServiceUnavailable):
        await build(RunConfig(), folder, tiny_folder(), client, lambda _: policy, closing("policy"))
    return closed


async def test_what_was_opened_is_closed_once_in_the_opposite_order(tmp_path) -> None:
    assert await closed_by(tmp_path) == ["policy", "client"]


@pytest.mark.parametrize("failing", ["policy", "client"])
async def test_what_cannot_be_closed_leaves_nothing_else_open(tmp_path, failing) -> None:
    assert await closed_by(tmp_path, failing) == ["policy", "client"]
