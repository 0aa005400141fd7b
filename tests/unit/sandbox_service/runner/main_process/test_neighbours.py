"""Instances of one box have no effect on each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox

CONTENT = "x" * 400_000
QUEUE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.mq_open(b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None), errno.errorcode.get(ctypes.get_errno()))
"""


def test_the_end_of_one_instance_spares_the_file_helpers_of_the_others(
    agent_box: RunnerBox, instance: str
) -> None:
    call = {"do": "write", "path": "big.txt", "text": CONTENT}
    body = {"message": {"role": "assistant", "content": json.dumps(call)}}
    for number in range(30):
        neighbour = f"neighbour-{number}"
        agent_box.create(neighbour)
        agent_box.act(neighbour, do="shell", command="true")
        writing = agent_box.send(Op.STEP, instance, meta={"deadline_s": 20}, body=body)
        ending = agent_box.send(Op.RELEASE, neighbour)
        written = agent_box.answer(writing)
        assert agent_box.answer(ending).meta["clean"]
        assert written.op is Op.REPLY
        assert "raised" not in json.loads(written.body)["info"]


def test_no_message_queue_can_be_left_to_a_neighbour(agent_box: RunnerBox, instance: str) -> None:
    """Also where system calls are not filtered, as they are not in these tests."""
    said = agent_box.act(instance, do="python", code=QUEUE)["output"]
    assert said in ("-1 EMFILE\n", "-1 ENOSPC\n", "-1 ENOSYS\n")
