"""The factory of process boxes."""

import secrets

from sandbox_service.config import SandboxConfig
from sandbox_service.sandboxes.factory import open_factory
from tests.fakes.boxes import ECHO


async def test_the_log_says_once_what_protects_boxes_and_that_they_are_no_boundary(tmp_path, caplog):
    config = SandboxConfig(kind="process", state_dir=tmp_path)
    factory = await open_factory(config, f"log{secrets.token_hex(4)}")
    try:
        for _ in range(2):
            box = await factory.start(ECHO, lambda _: None, lambda _: None)
            await box.destroy()
    finally:
        await factory.close()
    (line,) = [record.getMessage() for record in caplog.records if "no security boundary" in record.message]
    for name, on in factory._hosts[False].protections().items():
        assert f"{name}: {'on' if on else 'off'}" in line
