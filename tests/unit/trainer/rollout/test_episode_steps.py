"""The steps of an episode hand words to the policy."""

import logging

import pytest

from tests.fakes.pictures import PNG
from tests.fakes.told_service import TASK_MESSAGES, ToldService, observed
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT, play


async def test_a_policy_of_text_plays_an_environment_with_pictures_by_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "trainer")
    system, task = TASK_MESSAGES
    answer = observed("95")
    answer["observation"]["messages"][0]["images"] = [PNG]
    shown = ToldService([answer, END], messages=(system, {**task, "images": [PNG]}))
    played = await play(shown, PROGRAM, SUBMIT)
    plain = await play(ToldService([observed("95"), END]), PROGRAM, SUBMIT)
    assert played.segments[0].token_ids == plain.segments[0].token_ids
    assert played.lines == plain.lines
    assert [each.message for each in caplog.records if "pictures" in each.message] == [
        "code shows pictures; the policy reads text, and gets its observations without"
    ]
