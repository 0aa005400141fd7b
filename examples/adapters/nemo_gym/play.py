"""NeMo Gym's own agent plays the rows of a file: play.py ADAPTER MODEL ROWS, with two addresses.

``ng_run`` starts the same servers, each with packages of its own; here all of them are in one process.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

ADAPTER, MODEL, ROWS = sys.argv[1:]


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def reference(kind: str) -> dict[str, str]:
    """Return how a server names another one."""
    return {"type": kind, "name": NAMES[kind]}


NAMES = {"resources_servers": "sandbox", "responses_api_models": "policy", "responses_api_agents": "agent"}
SERVERS = {
    "resources_servers": {"host": urlsplit(ADAPTER).hostname, "port": urlsplit(ADAPTER).port},
    "responses_api_models": {
        "host": "127.0.0.1",
        "port": free_port(),
        "base_url": f"{MODEL}/v1",
        "api_key": os.environ.get("MODEL_API_KEY", "none"),
        "model": "policy",
        "return_token_id_information": False,
        "uses_reasoning_parser": False,
    },
    "responses_api_agents": {
        "host": "127.0.0.1",
        "port": free_port(),
        "resources_server": reference("resources_servers"),
        "model_server": reference("responses_api_models"),
        "max_steps": 20,
    },
}
SETTINGS = {
    NAMES[kind]: {kind: {"app": {**fields, "entrypoint": "app.py"}}} for kind, fields in SERVERS.items()
}
os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps({**SETTINGS, "head_server": {"host": "127.0.0.1", "port": 0}})

import uvicorn  # noqa: E402 - NeMo Gym reads the variable when it is imported
from nemo_gym.config_types import BaseServerConfig  # noqa: E402
from nemo_gym.global_config import get_global_config_dict  # noqa: E402
from nemo_gym.server_utils import ServerClient, get_global_aiohttp_client, get_response_json  # noqa: E402
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig  # noqa: E402
from responses_api_models.vllm_model.app import VLLMModel, VLLMModelConfig  # noqa: E402


class Serving(uvicorn.Server):
    """A server of this event loop, as a context manager."""

    async def __aenter__(self) -> None:
        self.task = asyncio.create_task(self.serve())
        while not self.started and not self.task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def __aexit__(self, *raised: object) -> None:
        self.should_exit = True
        await self.task


async def main(rows: list[bytes]) -> None:
    """Serve model and agent, and let the agent play the rows."""
    head = BaseServerConfig(host="127.0.0.1", port=0)
    client = ServerClient(head_server_config=head, global_config_dict=get_global_config_dict())
    applications = (
        ("responses_api_models", VLLMModel, VLLMModelConfig),
        ("responses_api_agents", SimpleAgent, SimpleAgentConfig),
    )
    async with AsyncExitStack() as servers:
        for kind, server, settings in applications:
            fields = {**SERVERS[kind], "entrypoint": "app.py", "name": NAMES[kind]}
            app = server(config=settings(**fields), server_client=client).setup_webserver()
            quiet = {"log_level": "warning", "lifespan": "on"}
            config = uvicorn.Config(app, host=fields["host"], port=fields["port"], **quiet)
            await servers.enter_async_context(Serving(config))
        for row in map(json.loads, rows):
            played = await get_response_json(await client.post("agent", "/run", json=row))
            calls = [item["name"] for item in played["response"]["output"] if item["type"] == "function_call"]
            print(f"{row['task_id']}: calls {', '.join(calls)}; reward {played['reward']}")
        await get_global_aiohttp_client().close()


asyncio.run(main(Path(ROWS).read_bytes().splitlines()))
