import pytest

PYTHON = "simple_python_0"
DOTTED = "multiple_0"
IRRELEVANT = "irrelevance_0"
RELEVANT = "live_relevance_0-0-0"


def test_the_tools_have_names_that_openai_allows_and_the_answer_is_graded_under_the_official_one(play):
    episode = play(DOTTED)
    names = [tool["function"]["name"] for tool in episode.start.tools]
    assert "triangle_properties_get" in names
    outcome = episode.call(("triangle_properties_get", {"side1": 5, "side2": 4, "side3": 3}))
    assert outcome.terminated
    assert episode.verdict().success


def test_the_official_name_is_understood_too(play):
    episode = play(DOTTED)
    episode.call(("triangle_properties.get", {"side1": 5, "side2": 4, "side3": 3}))
    assert episode.verdict().success


def test_calls_in_text_are_graded_likewise(play):
    episode = play(PYTHON)
    outcome = episode.say(
        '<tool_call>{"name": "calculate_triangle_area", "arguments": {"base": 10, "height": 5}}</tool_call>'
    )
    assert outcome.terminated
    assert episode.verdict(sparse=True).score == 1.0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("calculate_triangle_area", {"base": 10, "height": 6}),
        ("calculate_triangle_area", {"base": "10", "height": 5}),
        ("calculate_triangle_area", {"base": 10}),
        ("no_such_function", {"base": 10, "height": 5}),
    ],
)
def test_a_wrong_call_ends_the_episode_without_reward(play, name, arguments):
    episode = play(PYTHON)
    assert episode.call((name, arguments)).terminated
    verdict = episode.verdict()
    assert (verdict.score, verdict.success) == (0.0, False)
    assert verdict.details["error_type"]


def test_a_broken_call_is_told_and_may_be_made_again(play):
    episode = play(PYTHON)
    outcome = episode.call(("calculate_triangle_area", "{"))
    assert "not valid JSON" in outcome.messages[0]["content"]
    assert not outcome.terminated
    assert not episode.verdict().success
    episode.call(("calculate_triangle_area", {"base": 10, "height": 5}))
    assert episode.verdict().success


def test_the_attempts_are_the_step_limit(catalog):
    assert catalog.payload(PYTHON).max_steps == 3


@pytest.mark.parametrize(
    ("task_id", "texts"), [(IRRELEVANT, "last"), ("live_irrelevance_0-0-0", "last"), (PYTHON, None)]
)
def test_the_opening_says_where_a_text_may_be_the_answer(play, task_id, texts):
    assert play(task_id).start.info.get("texts") == texts


def test_no_call_is_right_where_no_function_fits(play):
    silent, talkative = play(IRRELEVANT), play(IRRELEVANT)
    assert silent.say("None of these can help.").terminated
    name = talkative.start.tools[0]["function"]["name"]
    talkative.call((name, {}))
    assert (silent.verdict().success, talkative.verdict().success) == (True, False)


def test_some_call_is_right_where_a_function_fits(play):
    silent, talkative = play(RELEVANT), play(RELEVANT)
    silent.say("None of these can help.")
    talkative.call((talkative.start.tools[0]["function"]["name"], {}))
    assert (silent.verdict().success, talkative.verdict().success) == (False, True)


def test_nothing_said_is_no_answer(play):
    assert not play(IRRELEVANT).verdict().success


def test_a_step_reward_is_the_verdict(play):
    right, wrong = play(PYTHON, step_rewards=True), play(PYTHON, step_rewards=True)
    assert right.call(("calculate_triangle_area", {"base": 10, "height": 5})).reward == 1.0
    assert wrong.say("I do not know.").reward == 0.0


@pytest.mark.parametrize("value", [[], {}, [{}], {"a": [1]}, None, True, [[["x"]]], 10**400])
def test_arguments_of_any_form_are_wrong_not_failures(play, catalog, value):
    for task_id in (
        "simple_python_0",
        "simple_java_5",
        "simple_javascript_5",
        "parallel_0",
        "live_multiple_0-0-0",
    ):
        episode = play(task_id)
        for message in catalog.reference(task_id):
            calls = [each["function"]["name"] for each in message["tool_calls"]]
        properties = episode.start.tools[0]["function"]["parameters"]["properties"]
        episode.call(*[(name, dict.fromkeys(properties, value)) for name in calls])
        assert not episode.verdict().success


def test_an_answer_that_the_checker_would_take_for_ever_over_is_wrong(play, monkeypatch):
    from sandbox_service.environments.bfcl.box import checkers

    monkeypatch.setattr(checkers, "VERDICT_CPU_S", 0.5)
    episode = play("simple_javascript_2")
    # The pattern for lists of lists tries every way to cut this one up, and there are 2**60.
    status = "[[a]" + ",[a]" * 60 + "x"
    given = {"filepath": "/var/log/db.log", "status": status, "encoding": "utf-8", "processFunction": "f"}
    episode.call(("extractLastTransactionId", given))
    verdict = episode.verdict()
    assert (verdict.success, verdict.details["error_type"] is None) == (False, False)
