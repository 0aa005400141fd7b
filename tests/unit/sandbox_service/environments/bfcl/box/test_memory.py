import pytest

from sandbox_service.runner.world import WorldError

KEYS = "memory_kv_0-customer-0"
TEXT = "memory_rec_sum_0-customer-0"


def sessions(episode):
    """Say nothing of note until the question; the openings of conversations on the way."""
    openings = [episode.start.messages]
    for _ in range(episode.start.info["turns"] - 1):
        outcome = episode.say("Noted.")
        if outcome.info.get("new_session"):
            openings.append(outcome.messages)
    return openings


@pytest.mark.parametrize("task_id", [KEYS, TEXT])
def test_conversations_come_before_the_question_each_with_an_opening_of_its_own(play, task_id):
    episode = play(task_id)
    openings = sessions(episode)
    assert len(openings) == 11
    assert all([message["role"] for message in each] == ["system", "user"] for each in openings)
    assert "first name" in openings[-1][1]["content"]
    assert "'answer'" in openings[-1][0]["content"]
    assert episode.say("{'answer': 'Michael', 'context': 'He said so.'}").terminated
    assert episode.verdict().success


def test_what_was_noted_is_seen_in_the_next_conversation(play):
    episode = play(KEYS)
    episode.call(("core_memory_add", {"key": "first_name", "value": "Michael"}))
    openings = sessions(episode)
    assert '"first_name": "Michael"' not in openings[0][0]["content"]
    assert all('"first_name": "Michael"' in each[0]["content"] for each in openings[1:])


def test_the_archive_is_searched(play):
    episode = play(KEYS)
    for key in ("first_name", "home_town", "coffee_machine"):
        episode.call(("archival_memory_add", {"key": key, "value": key}))
    outcome = episode.call(("archival_memory_key_search", {"query": "town", "k": 1}))
    assert "home_town" in outcome.messages[0]["content"]


@pytest.mark.parametrize("answer", ["{'answer': 'Peter', 'context': ''}", "I do not know."])
def test_a_wrong_answer_is_wrong(play, answer):
    episode = play(KEYS)
    sessions(episode)
    episode.say(answer)
    assert not episode.verdict().success


def test_an_answer_in_thoughts_only_is_none(play):
    episode = play(KEYS)
    sessions(episode)
    episode.say("<think>Michael</think>I do not know.")
    assert not episode.verdict().success


def test_an_answer_before_the_question_counts_for_nothing(play):
    episode = play(KEYS)
    episode.say("{'answer': 'Michael'}")
    assert not episode.verdict().success


@pytest.mark.parametrize(
    ("task_id", "call"),
    [
        (KEYS, ("core_memory_add", {"key": "first_name", "value": "Michael"})),
        (TEXT, ("memory_append", {"text": "He is Michael."})),
    ],
)
def test_a_memory_of_one_episode_opens_another_at_its_question(play, task_id, call):
    writer = play(task_id)
    writer.call(call)
    memory = writer.verdict().details["memory"]
    reader = play(task_id, memory=memory)
    assert reader.start.info["turns"] == 1
    assert (writer.start.info["texts"], reader.start.info["texts"]) == ("dialogue", "last")
    assert "Michael" in reader.start.messages[0]["content"]
    reader.say("{'answer': 'Michael'}")
    assert reader.verdict().success


@pytest.mark.parametrize(
    "memory", [{"memory": "text"}, {"core_memory": {}}, {"core_memory": {"a": 1}, "archival_memory": {}}]
)
def test_a_memory_of_another_form_is_refused(play, memory):
    with pytest.raises(WorldError) as refused:
        play(KEYS, memory=memory)
    assert refused.value.code == "invalid_request"


def test_an_open_query_of_a_memory_task_asks_its_question_all_the_same(play):
    episode = play(KEYS, is_open_query=True)
    assert episode.start.info["turns"] == play(KEYS).start.info["turns"]
    sessions(episode)
    assert episode.say("{'answer': 'Michael'}").terminated
    assert episode.verdict().success
    memory = episode.verdict().details["memory"]
    episode = play(KEYS, is_open_query=True, memory=memory)
    assert episode.say("{'answer': 'Michael'}").terminated
    assert episode.verdict().success
