from sandbox_contract.inspection import Event
from sandbox_service.gateway.compat.agentgym.scenes import opened, recorded, stepped


def created(text="You see.", **info):
    messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": text}]
    return {"task_id": "t", "observation": {"messages": messages}, "info": info}


def answered(text, reward=0.0, **fields):
    observation = {"messages": [{"role": "user", "content": text}]}
    return {"observation": observation, "reward": reward, "terminated": False, "truncated": False, **fields}


def event(operation, result):
    return Event(sequence=0, operation=operation, at=0.0, result=result)


def test_the_system_prompt_is_left_to_the_client():
    assert opened(created()).text == "You see."


def test_a_record_is_read_to_its_end_and_failed_steps_changed_nothing():
    events = [
        event("create", created(score=0.0)),
        event("step", answered("One.", 0.25)),
        event("step", {"code": "step_timeout", "status": 504}),
        event("step", answered("Two.", 0.5, truncated=True)),
        event("evaluate", {"score": 1.0}),
    ]
    scene = recorded(events)
    assert scene is not None
    assert (scene.text, scene.reward, scene.total, scene.done, scene.moves) == ("Two.", 0.5, 0.75, True, 2)


def test_a_record_without_a_beginning_is_no_scene():
    assert recorded([event("release", {"released": True})]) is None


def test_the_score_is_the_environments_where_it_tells_one():
    assert stepped(answered("x", 0.5)).score == 0.5
    assert stepped(answered("x", 0.5, info={"score": 0.1})).score == 0.1


def test_the_instruction_is_told_or_read_from_the_page():
    page = "WebShop [SEP] Instruction: [SEP] Find me shoes. [SEP] Search"
    assert opened(created(page)).instruction == "Find me shoes."
    assert opened(created(page, instruction="Buy.")).instruction == "Buy."
    assert opened(created("No such word")).instruction == "No such word"


def test_clicks_are_what_stands_in_brackets():
    scene = opened(created(available_actions=["search[your query]", "click[Buy Now]", "click[[odd] size]"]))
    assert scene.clickables == ["Buy Now", "[odd] size"]
    assert scene.searchable
    assert not opened(created(available_actions=["search[x]"], has_search_bar=False)).searchable


def test_a_variation_is_told_or_ends_the_tasks_id() -> None:
    assert opened({**created(), "task_id": "boil-12"}).variation == 12
    assert opened({**created(variation=3), "task_id": "boil-12"}).variation == 3
    assert opened(created()).variation == -1
