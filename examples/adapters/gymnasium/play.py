"""Plays an episode of ``code`` through Gymnasium. Pass the address of a running service."""

import sys

import gymnasium

import sandbox_client.adapters.gymnasium  # noqa: F401 - registers "sandbox/Episode-v0"

SOLUTION = '```python\nopen("answer.txt", "w").write(str(str(7**250).count("3")))\n```'
SUBMIT = {"tool_calls": [{"type": "function", "function": {"name": "submit", "arguments": "{}"}}]}

with gymnasium.make("sandbox/Episode-v0", base_url=sys.argv[1], environment="code") as env:
    observation, info = env.reset(seed=0, options={"task_id": "maths_power_digits"})
    print(observation.splitlines()[0])
    for action in (SOLUTION, SUBMIT):
        observation, reward, terminated, truncated, info = env.step(action)
        print(f"reward {reward}, terminated {terminated}, truncated {truncated}")
    print("success:", info["evaluation"]["success"])
