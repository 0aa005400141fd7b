from sandbox_contract.inspection import Event
from sandbox_service.gateway.compat.agentgym.episode_state import (
    state_after_create,
    state_after_step,
    state_from_events,
)


def created(text="You see.", **info):
    messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": text}]
    return {"task_id": "t", "observation": {"messages": messages}, "info": info}


def answered(text, reward=0.0, **fields):
    observation = {"messages": [{"role": "user", "content": text}]}
    return {"observation": observation, "reward": reward, "terminated": False, "truncated": False, **fields}


def event(operation, result):
    return Event(sequence=0, operation=operation, at=0.0, result=result)


def test_the_system_prompt_is_left_to_the_client():
    assert state_after_create(created()).text == "You see."


def test_a_record_is_read_to_its_end_and_failed_steps_changed_nothing():
    events = [
        event("create", created(score=0.0)),
        event("step", answered("One.", 0.25)),
        event("step", {"code": "step_timeout", "status": 504}),
        event("step", answered("Two.", 0.5, truncated=True)),
        event("evaluate", {"score": 1.0}),
    ]
    state = state_from_events(events)
    assert state is not None
    assert (state.text, state.reward, state.total, state.done, state.moves) == ("Two.", 0.5, 0.75, True, 2)


def test_a_record_without_a_beginning_is_no_scene():
    assert state_from_events([event("release", {"released": True})]) is None


def test_the_score_is_the_environments_where_it_tells_one():
    assert state_after_step(answered("x", 0.5)).score == 0.5
    assert state_after_step(answered("x", 0.5, info={"score": 0.1})).score == 0.1


def test_the_instruction_is_a_field_or_read_from_the_page():
    page = "WebShop [SEP] Instruction: [SEP] Find me shoes. [SEP] Search"
    assert state_after_create(created(page)).instruction == "Find me shoes."
    assert state_after_create(created(page, instruction="Buy.")).instruction == "Buy."
    assert state_after_create(created("No such word")).instruction == "No such word"


def test_clicks_are_what_stands_in_brackets():
    state = state_after_create(
        created(available_actions=["search[your query]", "click[Buy Now]", "click[[odd] size]"])
    )
    assert state.clickables == ["Buy Now", "[odd] size"]
    assert state.searchable
    assert not state_after_create(created(available_actions=["search[x]"], has_search_bar=False)).searchable


def test_a_variation_is_a_field_or_the_end_of_the_task_id() -> None:
    assert state_after_create({**created(), "task_id": "boil-12"}).variation == 12
    assert state_after_create({**created(variation=3), "task_id": "boil-12"}).variation == 3
    assert state_after_create(created()).variation == -1
