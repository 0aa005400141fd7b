"""An agent's launcher follows from its kind, and is checked before anything else of the run starts."""

import pytest

from sandbox_client import AsyncSandboxClient
from trainer.agents.box import BoxLauncher
from trainer.agents.hosts import HostedAgents
from trainer.agents.launchers import check_agent, make_launcher
from trainer.agents.remote import RemoteAgents
from trainer.config.agent import BoxAgent, CommandAgent, FunctionAgent, RemoteAgent
from trainer.errors import ConfigError


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        (FunctionAgent(function="mod:play"), HostedAgents),
        (CommandAgent(command=("true",)), HostedAgents),
        (RemoteAgent(url="http://127.0.0.1:9"), RemoteAgents),
        (BoxAgent(command=("true",)), BoxLauncher),
    ],
)
async def test_each_kind_has_its_launcher(agent, kind):
    async with AsyncSandboxClient("http://127.0.0.1:9") as client:
        assert isinstance(make_launcher(agent, None, frozenset(), client, "code"), kind)


def test_an_agent_in_boxes_is_left_to_the_service(tmp_path):
    check_agent(BoxAgent(command=("no-such-command",)), tmp_path)


def test_an_agent_that_can_be_run_passes_the_check(tmp_path):
    check_agent(CommandAgent(command=("true",), processes=4), tmp_path)


@pytest.mark.parametrize(
    ("agent", "sentence"),
    [
        (FunctionAgent(function="no_module:play"), "no_module cannot be imported"),
        (CommandAgent(command=("no-such-command",)), "'no-such-command' is not found"),
        (RemoteAgent(url="http://127.0.0.1:9"), "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_an_agent_that_cannot_be_run_is_refused_before_the_run(tmp_path, agent, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_agent(agent, tmp_path)
