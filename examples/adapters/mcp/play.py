"""Plays an episode of ``code`` with an MCP client. Pass the command sandbox-service and a server address."""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CODE = 'open("answer.txt", "w").write(str(str(7**250).count("3")))'


async def main(command: str, server: str) -> None:
    """List the tools, solve the task with two calls, and print the answers."""
    arguments = ["mcp", "--server", server, "--env", "code", "--task", "maths_power_digits", "--evaluate"]
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        opened = await session.initialize()
        print(opened.instructions.splitlines()[0])
        print("tools:", ", ".join(tool.name for tool in (await session.list_tools()).tools))
        await session.call_tool("python", {"code": CODE})
        answer = await session.call_tool("submit", {})
        print("reward", answer.meta["training-sandbox/reward"], "error", answer.is_error)


asyncio.run(main(*sys.argv[1:]))
