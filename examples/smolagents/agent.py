"""smolagents' ToolCallingAgent with the tools of the episode; its final answer is submitted."""

from __future__ import annotations

from openai import DefaultHttpxClient
from smolagents import LogLevel, OpenAIServerModel, Tool, ToolCallingAgent

from sandbox_client.sync_agent import SyncAgentEpisode

CONNECTIONS = DefaultHttpxClient()
"""Shared by all episodes: each new one reads the machine's certificates, which takes 20 ms of CPU time."""


class EpisodeTool(Tool):
    """A tool of the episode."""

    output_type = "string"
    skip_forward_signature_validation = True

    def __init__(self, episode: SyncAgentEpisode, function: dict) -> None:
        self._episode = episode
        self.name = function["name"]
        self.description = function["description"]
        schema = function["parameters"]
        required = schema.get("required", [])
        self.inputs = {
            name: {"type": "any", "description": name, **each, "nullable": name not in required}
            for name, each in schema.get("properties", {}).items()
        }
        super().__init__()

    def forward(self, **arguments: object) -> str:
        """Call the tool."""
        return self._episode.call_tool(self.name, arguments)


def solve(episode: SyncAgentEpisode) -> None:
    """Play one episode."""
    tools = [EpisodeTool(episode, tool["function"]) for tool in episode.tools]
    model = OpenAIServerModel(
        episode.model,
        api_base=episode.base_url,
        api_key=episode.api_key,
        client_kwargs={"http_client": CONNECTIONS},
        tool_choice="auto",
    )
    offered = [tool for tool in tools if tool.name != "submit"]
    agent = ToolCallingAgent(offered, model, verbosity_level=LogLevel.ERROR)
    answer = agent.run(episode.messages[-1]["content"])
    episode.call_tool("submit", {"answer": str(answer)})


if __name__ == "__main__":
    with SyncAgentEpisode.from_environment() as opened:
        solve(opened)
