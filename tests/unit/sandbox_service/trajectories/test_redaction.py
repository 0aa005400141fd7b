"""Redaction of exported episodes: texts that match a pattern are replaced, and all else stays."""

import base64
import json

import pytest

from sandbox_service.trajectories.reader import StoredInstance
from sandbox_service.trajectories.records import EventKind
from sandbox_service.trajectories.redaction import Redaction, RedactionError
from tests.harness.episodes import event, instance

KEY = r"sk-\w+"
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
STORED = StoredInstance(instance(params_json=b'{"key": "sk-1"}'), None, None)


def redacted(body, *patterns):
    """A request's body after the redaction."""
    _, [one] = Redaction(patterns or (KEY,)).of_episode(STORED, [event(request=body)])
    return one.request


def redacted_value(value, *patterns):
    return json.loads(redacted(json.dumps(value).encode(), *patterns))


def test_matches_are_replaced_in_all_texts_of_requests_answers_and_parameters():
    seen = event(kind=EventKind.CREATE, request=b'["sk-1"]', response=b'{"a": {"b": ["x sk-2 y", 1, null]}}')
    stored, [one] = Redaction([KEY]).of_episode(STORED, [seen])
    assert stored.record.params_json == b'{"key": "[redacted]"}'
    assert json.loads(one.request) == ["[redacted]"]
    assert json.loads(one.response) == {"a": {"b": ["x [redacted] y", 1, None]}}


def test_all_patterns_apply():
    assert redacted_value(["ab"], "a", "b") == ["[redacted][redacted]"]


def test_the_formats_own_words_and_pictures_stay():
    call = {"type": "function", "function": {"name": "say", "arguments": "assistant"}}
    message = {"role": "assistant", "content": "assistant", "tool_calls": [call], "images": [PNG]}
    kept = redacted_value(message, "assistant|function|base64|iVBOR")
    assert (kept["role"], kept["content"], kept["images"]) == ("assistant", "[redacted]", [PNG])
    assert kept["tool_calls"][0]["type"] == "function"
    assert kept["tool_calls"][0]["function"]["arguments"] == "[redacted]"


def test_what_only_claims_to_be_a_picture_or_a_role_is_redacted():
    message = {"role": "sk-1", "images": ["data:image/png;base64,sk-2"]}
    assert redacted_value(message) == {"role": "[redacted]", "images": ["data:image/png;base64,[redacted]"]}


def test_texts_of_json_are_redacted_behind_their_escapes():
    arguments = json.dumps({"key": "BEGIN\nsecret\nEND", "other": "\u00e9"})
    kept = redacted_value({"arguments": arguments}, r"BEGIN\n[^E]*\nEND")
    assert json.loads(kept["arguments"]) == {"key": "[redacted]", "other": "\u00e9"}


def test_lines_of_json_within_a_text_are_redacted_behind_their_escapes():
    secret = json.dumps({"key": "BEGIN\nsecret\nEND"})
    text = f'log:\n{secret}\n{{ "a":1 }}\n"BEGIN\\nmore\\nEND"\n{{broken\n'
    kept = redacted_value({"content": text}, r"BEGIN\n[^E]*\nEND")["content"]
    assert kept == 'log:\n{"key": "[redacted]"}\n{ "a":1 }\n"[redacted]"\n{broken\n'


def test_numbers_are_matched_as_json_writes_them():
    card = 4111111111111111
    given = {"card": card, "text": json.dumps({"cards": [card, 1, True]}), "other": [1, 0.5, True, None]}
    kept = redacted_value(given, r"\d{16}", "True", r"\b0\.5\b")
    assert kept == {
        "card": "[redacted]",
        "text": '{"cards": ["[redacted]", 1, true]}',
        "other": [1, "[redacted]", True, None],
    }


def test_a_text_without_a_match_stays_as_it_is_written():
    assert redacted_value({"arguments": '{ "a":1 }'}) == {"arguments": '{ "a":1 }'}


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        pytest.param(b"key = sk-1\n", b"key = [redacted]\n", id="text"),
        pytest.param(b"\xff\x00sk-1\xfe", b"\xff\x00[redacted]\xfe", id="binary"),
        pytest.param(b"1234", b"[redacted]", id="number"),
        pytest.param(
            b'{"a": "\\ud83d sk-1"}\n\xff\n',
            b'{"a": "\\ud83d [redacted]"}\n\xff\n',
            id="half a surrogate pair",
        ),
        pytest.param(
            b'{"a": "\xff sk-1"}\n[]\n', b'{"a": "\xff [redacted]"}\n[]\n', id="lines that are not UTF-8"
        ),
        pytest.param(b"[" * 100_000 + b"sk-1", b"[" * 100_000 + b"[redacted]", id="deep"),
        pytest.param(b"", b"", id="empty"),
    ],
)
def test_files_are_redacted_and_keep_their_other_bytes(body, kept):
    assert redacted(body, KEY, r"\b1234\b") == kept


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        pytest.param("sk-(", "is not a regular expression: missing )", id="broken"),
        pytest.param("x*", "matches the empty text", id="empty"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_named(pattern, reason):
    with pytest.raises(RedactionError) as refused:
        Redaction([KEY, pattern])
    assert repr(pattern) in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize("pattern", [r"\b", "(?=sk-)", r"(?<=sk-)\d*"])
@pytest.mark.parametrize("value", [{"key": "my sk-x"}, [{"arguments": '{"key": "sk-x"}'}]])
def test_a_pattern_that_matches_no_text_ends_the_redaction(pattern, value):
    redaction = Redaction([KEY.replace("sk", "pk"), pattern])
    with pytest.raises(RedactionError, match="matches a place without any text") as refused:
        redaction.of_episode(STORED, [event(request=json.dumps(value).encode())])
    assert repr(pattern) in str(refused.value)


def test_a_pattern_that_backtracks_for_ever_is_stopped():
    redaction = Redaction([r"(?:a|aa)+$"], most_s=0.05)
    with pytest.raises(RedactionError, match=r"took longer than 0.05 s for a text of 61 characters"):
        redaction.of_episode(STORED, [event(request=json.dumps(["a" * 60 + "c"]).encode())])
