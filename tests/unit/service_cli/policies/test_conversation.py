from sandbox_contract.episodes import Observation, StepResult
from sandbox_contract.messages import FunctionSchema, Message, Tool
from service_cli.policies.conversation import EpisodeConversation

TASK = Message(role="user", content="task")
OLD, NEW = (Tool(function=FunctionSchema(name=name)) for name in ("old", "new"))


def result(info):
    observation = Observation(messages=(Message(role="user", content="seen"),))
    fields = {"reward": 0.5, "terminated": False, "truncated": False, "info": info}
    return StepResult(instance_id="i", step_index=0, observation=observation, **fields)


def begun() -> EpisodeConversation:
    conversation = EpisodeConversation()
    conversation.open((TASK,), (OLD,), {"category": "c"})
    return conversation


def test_the_view_has_everything_that_was_said_and_the_newest_info() -> None:
    conversation = begun()
    assert conversation.view().info == {"category": "c"}
    conversation.add_action(Message(role="assistant", content="act"))
    conversation.add_observation(result({"score": 1}))
    view = conversation.view()
    assert [message.content for message in view.messages] == ["task", "act", "seen"]
    assert (view.info, view.tools, conversation.rewards) == ({"score": 1}, (OLD,), [0.5])


def test_tools_that_a_step_names_replace_those_that_there_were_from_then_on() -> None:
    conversation = begun()
    conversation.add_observation(result({"tools": [NEW.model_dump()]}))
    conversation.add_observation(result({}))
    assert conversation.view().tools == (NEW,)
    conversation.add_observation(result({"tools": []}))
    assert conversation.view().tools == ()


def test_a_new_session_hides_what_was_said_before_and_forgets_nothing() -> None:
    conversation = begun()
    conversation.add_observation(result({"new_session": True}))
    assert [message.content for message in conversation.view().messages] == ["seen"]
    assert [message.content for message in conversation.messages] == ["task", "seen"]


def test_an_info_that_means_something_else_by_tools_changes_nothing() -> None:
    conversation = begun()
    conversation.add_observation(result({"tools": "hammer"}))
    assert conversation.view().tools == (OLD,)


def test_the_end_and_whether_the_last_action_was_understood_are_known() -> None:
    conversation = begun()
    assert (conversation.stop, conversation.understood) == ("policy", None)
    conversation.add_observation(result({"actions": []}))
    assert conversation.understood is False
    conversation.add_observation(result({"actions": [{"tool": "python"}]}))
    assert conversation.understood is True
    conversation.add_observation(result({}).model_copy(update={"truncated": True}))
    assert (conversation.stop, conversation.understood) == ("truncated", None)
