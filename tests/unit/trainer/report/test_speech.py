import pytest

from trainer.report.speech import parts_of

CALL = (
    '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)\\nprint(2)", "limit": 3}}\n</tool_call>'
)
READ = {"call": "python", "arguments": [["code", "print(1)\nprint(2)"], ["limit", "3"]]}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("Hello.", [{"text": "Hello."}]),
        ("", [{"text": ""}]),
        (f"I look.\n{CALL}", [{"text": "I look."}, READ]),
        (CALL + CALL, [READ, READ]),
        (
            "So:\n```python\nx = 1\n```\nthat is it",
            [{"text": "So:"}, {"code": "x = 1", "language": "python"}, {"text": "that is it"}],
        ),
        ("<tool_call>{broken</tool_call>", [{"text": "<tool_call>{broken</tool_call>"}]),
        ("```python\nnever closed", [{"text": "```python\nnever closed"}]),
    ],
)
def test_what_a_model_wrote_is_prose_programs_and_calls(content, parts):
    assert parts_of("assistant", content, "text") == parts


def test_calls_are_read_as_the_model_writes_them():
    written = '[TOOL_CALLS] [{"name": "look", "arguments": {"at": "door"}}]'
    assert parts_of("assistant", written, "mistral") == [{"call": "look", "arguments": [["at", "door"]]}]


def test_what_others_said_is_shown_as_it_is():
    assert parts_of("tool", CALL, "hermes") == [{"text": CALL}]


def test_long_arguments_are_cut():
    written = '<tool_call>{"name": "say", "arguments": {"text": "' + "x" * 10_000 + '"}}</tool_call>'
    ((_, shown),) = parts_of("assistant", written, "hermes")[0]["arguments"]
    assert shown.endswith("[... 4,000 characters more]")
