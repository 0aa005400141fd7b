"""mini-swe-agent, whose commands run in the episode's sandbox."""

from __future__ import annotations

import os
import re
from pathlib import Path

import yaml

os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # not from the network
    "LITELLM_LOG": "WARNING",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",  # the SDK below retries what is worth it
}

from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from sandbox_client.sync_agent import SyncAgentEpisode

CONFIG = Path(os.environ.get("MSWEA_MINI_CONFIG_PATH", package_dir / "config" / "mini.yaml")).read_text()
ENDING = re.compile(r"\n?\[(?:exit code (\d+)|(killed: .*|the process died: .*))\]$")
"""The notice of a command that failed: its exit code, or why it has none."""
NO_EXIT_CODE = -1


class EpisodeShell(LocalEnvironment):
    """Runs commands with the episode's tool ``execute_bash``."""

    def __init__(self, episode: SyncAgentEpisode) -> None:
        super().__init__()
        self._episode = episode

    def execute(self, action: dict, cwd: str = "") -> dict:
        """Run a command. Raises Submitted when it is the one that ends the task."""
        text = self._episode.call_tool("execute_bash", {"command": action["command"]})
        output = {"output": ENDING.sub("", text), "returncode": 0, "exception_info": ""}
        if failed := ENDING.search(text):
            code, why = failed.groups()
            # As the package's own environments report a command that was killed.
            exception = f"An error occurred while executing the command: {why}" if why else ""
            output |= {"returncode": int(code or NO_EXIT_CODE), "exception_info": exception}
        self._check_finished(output)
        return output


def solve(episode: SyncAgentEpisode) -> None:
    """Play one episode."""
    config = yaml.safe_load(CONFIG)
    config["agent"].pop("mode", None)  # of the interactive agent
    config["model"]["model_kwargs"] = {"api_base": episode.base_url, "api_key": episode.api_key}
    name = f"openai/{episode.model}"
    model = LitellmModel(model_name=name, cost_tracking="ignore_errors", **config["model"])
    agent = DefaultAgent(model, EpisodeShell(episode), **config["agent"])
    agent.run(episode.messages[-1]["content"])


if __name__ == "__main__":
    with SyncAgentEpisode.from_environment() as opened:
        solve(opened)
