"""Plays an episode of ``code`` with OpenEnv's own client. Pass the environment's address at the adapter."""

import asyncio
import sys

from openenv import GenericEnvClient

SOLUTION = '```python\nopen("answer.txt", "w").write(str(str(7**250).count("3")))\n```'
SUBMIT = {"type": "function", "function": {"name": "submit", "arguments": "{}"}}


async def main(url: str) -> None:
    """Reset, take two steps, and print what the client sees."""
    async with GenericEnvClient(base_url=url) as env:
        result = await env.reset(task_id="maths_power_digits", seed=0)
        print(result.observation["text"].splitlines()[0])
        await env.step({"content": SOLUTION})
        print("state:", (await env.state())["step_count"])
        result = await env.step({"content": None, "tool_calls": [SUBMIT]})
        print(f"reward {result.reward}, done {result.done}")


asyncio.run(main(sys.argv[1]))
