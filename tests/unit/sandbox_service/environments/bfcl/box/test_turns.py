import json

import pytest

from sandbox_service.runner.world import Context, WorldError

BASE = "multi_turn_base_0"
MISSING_FUNCTION = "multi_turn_miss_func_0"


def text_of(outcome):
    return outcome.messages[-1]["content"]


def tool_names(tools):
    return {tool["function"]["name"] for tool in tools}


def test_the_opening_has_a_system_prompt_the_first_question_and_openai_tools(play):
    start = play(BASE).start
    assert [message["role"] for message in start.messages] == ["system", "user"]
    assert "<tool_call>" in start.messages[0]["content"]
    assert "final_report.pdf" in start.messages[1]["content"]
    assert {"cd", "mv", "grep", "post_tweet"} <= tool_names(start.tools)
    assert (start.info["category"], start.info["turns"]) == ("multi_turn_base", 4)
    assert start.info["texts"] == "dialogue"


def test_native_calls_run_in_order_and_each_is_answered_under_its_id(play):
    outcome = play(BASE).call(("cd", {"folder": "document"}), ("ls", "{}"))
    assert [(each["role"], each["tool_call_id"]) for each in outcome.messages] == [
        ("tool", "c0"),
        ("tool", "c1"),
    ]
    assert json.loads(outcome.messages[1]["content"])["current_directory_content"] == [
        "final_report.pdf",
        "previous_report.pdf",
    ]
    assert not outcome.terminated


def test_calls_in_text_are_answered_in_one_user_message(play):
    outcome = play(BASE).say('<tool_call>{"name": "pwd", "arguments": {}}</tool_call>')
    (message,) = outcome.messages
    assert message["role"] == "user"
    assert "current_working_directory" in message["content"]


def test_a_message_without_a_call_ends_the_turn(play):
    episode = play(BASE)
    outcome = episode.say("Done.")
    assert "grep" in text_of(outcome)
    assert outcome.messages[0]["role"] == "user"
    for _ in range(2):
        assert not episode.say("Done.").terminated
    last = episode.say("Done.")
    assert last.terminated
    assert text_of(last) == "[CONVERSATION_COMPLETED]"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("cd", "{", "not valid JSON"),
        ("cd", "[]", "must be a JSON object"),
        ("no_such", {}, "no function"),
        ("_load_scenario", {"scenario": {}}, "no function"),
        ("__class__", {}, "no function"),
        ("__import__('os').getpid", {}, "no function"),
        ("cd", {"where": "document"}, "unexpected keyword"),
        ("cd", {"folder=1)or(x": 1}, "no argument name"),
        ("cd", {"lambda": 1}, "no argument name"),
        ("cd", '{"folder": NaN}', "not finite"),
        ("cd", {}, "missing 1 required"),
    ],
)
def test_a_call_that_cannot_run_is_told_and_ends_nothing(play, name, arguments, told):
    episode = play(BASE)
    outcome = episode.call((name, arguments), ("pwd", {}))
    assert told in outcome.messages[0]["content"]
    assert "workspace" in outcome.messages[1]["content"]
    assert not outcome.terminated
    assert outcome.info["calls"][0]["succeeded"] is False
    assert "grep" in text_of(episode.say("Done."))


def test_a_rollout_that_repairs_its_broken_calls_is_solved(play, catalog):
    episode = play(BASE)
    for message in catalog.reference(BASE):
        if message.get("tool_calls"):
            episode.call(("cd", "{"), ("no_such", {}))
        episode.all([message])
    assert episode.verdict().success


def test_held_back_functions_come_at_their_turn(play):
    episode = play(MISSING_FUNCTION)
    assert "sort" not in tool_names(episode.start.tools)
    for _ in range(2):
        assert "tools" not in episode.say("I cannot.").info
    outcome = episode.say("I cannot.")
    assert tool_names(outcome.info["tools"]) == tool_names(episode.start.tools) | {"sort"}
    assert '"name": "sort"' in text_of(outcome)
    assert (
        "sorted_content"
        in episode.call(("cd", {"folder": "document"}), ("sort", {"file_name": "final_report.pdf"})).messages[
            1
        ]["content"]
    )


def test_unanswered_turns_count_as_failed(play, catalog):
    episode = play(BASE)
    for message in catalog.reference(BASE)[:-1]:
        assert not episode.verdict().success
        episode.all([message])
    verdict = episode.verdict()
    assert (verdict.score, verdict.details["error_type"]) == (0.0, "multi_turn:force_terminated")
    assert (verdict.details["turns_answered"], verdict.details["turns"]) == (3, 4)


def test_evaluating_disturbs_nothing_and_leaves_nothing_behind(play, catalog, module):
    from sandbox_service.environments.bfcl.box.engine import official

    runner = official("eval_checker.multi_turn_eval.multi_turn_utils")
    before = set(vars(runner))
    plain, watched = play(BASE), play(BASE)
    for message in catalog.reference(BASE):
        assert watched.all([message]) == plain.all([message])
        watched.verdict()
    assert watched.verdict() == watched.verdict() == plain.verdict(sparse=True)
    assert set(vars(runner)) == before


def test_two_instances_of_a_task_share_nothing(play, catalog):
    poor, perfect = play(BASE), play(BASE)
    poor.call(("cd", {"folder": "document"}), ("rm", {"file_name": "final_report.pdf"}))
    perfect.all(catalog.reference(BASE))
    assert not poor.verdict().success
    assert perfect.verdict().success


def test_a_copy_goes_its_own_way(play, catalog):
    episode = play(BASE)
    reference = catalog.reference(BASE)
    episode.all(reference[:3])
    copy = episode.world.fork(Context("copy", 1))
    episode.call(("rm", {"file_name": "final_report.pdf"}))
    for message in reference[3:]:
        copy.step(message, 10.0)
        episode.all([message])
    assert copy.evaluate({}, episode.payload.grading).success
    assert not episode.verdict().success


def test_cards_of_long_context_tasks_are_each_instances_own(engine):
    one, other = (
        engine.make_objects(["TravelAPI"], {}, long_context=True)["TravelAPI"].credit_card_list
        for _ in range(2)
    )
    for card in one.values():
        card["balance"] = -1
    assert one.keys() == other.keys()
    assert all(card["balance"] != -1 for card in other.values())


def test_too_many_messages_in_a_turn_end_the_episode(play):
    episode = play(BASE, {"turn_steps": 3})
    outcomes = [episode.call(("pwd", {})) for _ in range(4)]
    assert [outcome.truncated for outcome in outcomes] == [False, False, False, True]
    assert not episode.verdict().success


def test_calls_beyond_the_limit_are_refused_not_dropped(play):
    outcome = play(BASE).call(*[("pwd", {})] * 66)
    assert len(outcome.messages) == 66
    assert ["at most" in each["content"] for each in outcome.messages[-3:]] == [False, True, True]


def test_harmless_calls_change_no_verdict(play, catalog):
    episode = play(BASE)
    for message in catalog.reference(BASE):
        if not message.get("tool_calls"):
            episode.call(("pwd", {}), ("ls", {}))
        episode.all([message])
    assert episode.verdict().success


def test_needless_calls_are_told_and_fail_where_that_is_wanted(play, catalog):
    def verdict(settings):
        episode = play(MISSING_FUNCTION, settings)
        for message in catalog.reference(MISSING_FUNCTION):
            if not message.get("tool_calls"):
                episode.call(("pwd", {}))
            episode.all([message])
        return episode.verdict()

    lenient, strict = verdict({}), verdict({"strict_irrelevance": True})
    assert (lenient.success, lenient.details["needless_calls"]) == (True, True)
    assert (strict.success, strict.details["error_type"]) == (
        False,
        "multi_turn:irrelevance_error:decoder_success",
    )


def test_step_rewards_share_out_one_for_a_solved_task(play, catalog):
    episode = play(BASE, step_rewards=True)
    rewards = [outcome.reward for outcome in episode.all(catalog.reference(BASE))]
    assert rewards == [0.0, 0.25] * 4


def test_a_final_reward_is_the_score_and_comes_with_the_end(play, catalog):
    episode = play(BASE, final_reward=True)
    rewards = [outcome.reward for outcome in episode.all(catalog.reference(BASE))]
    assert (rewards[-1], set(rewards[:-1])) == (1.0, {0.0})
    wrong = play(BASE, final_reward=True)
    while not (outcome := wrong.say("done")).terminated:
        assert outcome.reward == 0.0
    assert outcome.reward == 0.0


def test_step_rewards_stop_at_the_first_wrong_turn(play, catalog):
    episode = play(BASE, step_rewards=True)
    reference = catalog.reference(BASE)
    assert [each.reward for each in episode.all([*reference[:2], reference[3], *reference[4:]])] == [
        0.0,
        0.25,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]


def test_without_the_parameter_steps_earn_nothing(play, catalog):
    assert {each.reward for each in play(BASE).all(catalog.reference(BASE))} == {0.0}


def test_needless_calls_earn_no_step_reward_where_they_fail(play, catalog):
    def rewards(settings):
        episode = play(MISSING_FUNCTION, settings, step_rewards=True)
        earned = []
        for message in catalog.reference(MISSING_FUNCTION):
            if not message.get("tool_calls"):
                episode.call(("pwd", {}))
            earned += [outcome.reward for outcome in episode.all([message])]
        return sum(earned), episode.verdict().score

    assert rewards({}) == (1.0, 1.0)
    earned, score = rewards({"strict_irrelevance": True})
    assert earned < 1.0
    assert score == 0.0


@pytest.mark.parametrize("params", [{}, {"step_rewards": True}, {"final_reward": True}], ids=str)
def test_an_open_query_is_the_first_turn_alone(play, catalog, params):
    reference = catalog.reference(BASE)
    first = [message.get("tool_calls") is None for message in reference].index(True) + 1
    episode = play(BASE, is_open_query=True, **params)
    assert episode.start.info["texts"] == "last"
    *_, outcome = episode.all(reference[:first])
    assert outcome.terminated
    assert outcome.reward == float(bool(params))
    verdict = episode.verdict()
    assert (verdict.score, verdict.details["turns"], verdict.details["turns_answered"]) == (1.0, 1, 1)
    idle = play(BASE, is_open_query=True)
    assert not idle.verdict().success
    idle.say("Done.")
    assert not idle.verdict().success


@pytest.mark.parametrize(
    "params",
    [
        {"model_name": "x"},
        {"is_open_query": 1},
        {"step_rewards": "yes"},
        {"final_reward": 1},
        {"final_reward": True, "step_rewards": True},
        {"memory": {}},
        {"memory": 3},
    ],
)
def test_parameters_that_do_not_fit_are_refused(play, params):
    with pytest.raises(WorldError) as refused:
        play(BASE, **params)
    assert refused.value.code == "invalid_request"


def test_unknown_parameters_of_an_evaluation_are_refused(play):
    episode = play(BASE)
    for params in ({"model": "x"}, {"sparse": 1}):
        with pytest.raises(WorldError):
            episode.verdict(**params)
