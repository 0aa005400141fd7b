"""Rows to score: an end for each turn, in the order of the turns, read where the model was trained."""

import pytest

from sandbox_contract.messages import Message
from tests.harness.chat_templates import CHATML, GEMMA, LLAMA3, MISTRAL, write_tokenizer
from trainer.chat import ChatTokenizer
from trainer.chat.folder import load_tokenizer
from trainer.config import ChatConfig
from trainer.errors import ConfigError, RewardFailed
from trainer.offline.tokens import tokenize_conversation
from trainer.reward_models.note import RewardModelNote
from trainer.reward_models.rows import TextReader
from trainer.types import Line, Segment, StopReason, TaskRef, Trajectory, Turn

SAID = (("user", "1+1?"), ("assistant", "3"), ("user", "No."), ("assistant", "2"))
CLOSED = CHATML.replace(
    "{%- if add_generation_prompt -%}", "{%- if not add_generation_prompt -%}</s>{%- else -%}"
)
"""Ends a text with another token than a turn, in the manner of Phi 4 mini."""


def rows(folder, read_at, said=SAID):
    reader = TextReader.of(folder, RewardModelNote(read_at=read_at))
    lines = tuple(Line(role, content) for role, content in said)
    return reader.read_episode(Trajectory("", TaskRef("", "", ""), 0, (), StopReason.TERMINATED, lines=lines))


@pytest.mark.parametrize(
    "template", [CHATML, CLOSED, LLAMA3, MISTRAL], ids=["chatml", "closed", "llama3", "mistral"]
)
def test_a_model_of_a_stage_reads_the_tokens_that_it_was_trained_on(tmp_path, template):
    folder = write_tokenizer(tmp_path, template)
    messages = [Message(role=role, content=content) for role, content in SAID]
    trained = tokenize_conversation(ChatTokenizer(folder, ChatConfig()), messages[:1], messages[1:])
    (row,) = rows(folder, "stop_token")
    assert row.token_ids == trained.token_ids
    assert row.ends == tuple(turn.end for turn in trained.turns)


def test_a_model_of_another_project_reads_all_that_its_template_renders(tmp_path):
    folder = write_tokenizer(tmp_path, CHATML)
    (row,) = rows(folder, "turn")
    tokenizer = load_tokenizer(folder)
    assert tokenizer.decode(row.token_ids).endswith("2<|im_end|>\n")
    assert tokenizer.decode(row.token_ids[: row.ends[0]]).endswith("3<|im_end|>\n")


def test_a_stop_token_of_the_user_ends_no_turn(tmp_path):
    open_ended = CHATML.replace(
        "{{ '<|im_end|>\\n' }}{%- endif -%}{%- endfor",
        "{%- if not loop.last -%}{{ '<|im_end|>\\n' }}{%- endif -%}{%- endif -%}{%- endfor",
    )
    assert open_ended != CHATML
    folder = write_tokenizer(tmp_path, open_ended)
    (row,) = rows(folder, "stop_token", SAID[:2])
    assert load_tokenizer(folder).decode(row.token_ids).endswith("assistant\n3")


TOOL = (("user", "6*7?"), ("assistant", "print(6*7)"), ("tool", "42"), ("user", "So?"), ("assistant", "42."))
WITHOUT_TOOLS = CHATML.replace(
    "{%- elif m.role == 'tool' -%}", "{%- elif m.role == 'tool' -%}{%- elif false -%}"
)
"""Drops the messages of tools, in the manner of Zephyr."""


@pytest.mark.parametrize("template", [CHATML, WITHOUT_TOOLS, GEMMA, MISTRAL])
def test_an_answer_of_a_tool_is_read_whatever_roles_the_template_has(tmp_path, template):
    folder = write_tokenizer(tmp_path, template)
    (row,) = rows(folder, "turn", TOOL)
    other = [(role, "Traceback" if role == "tool" else content) for role, content in TOOL]
    (failed,) = rows(folder, "turn", other)
    assert "42" in load_tokenizer(folder).decode(row.token_ids[row.ends[0] : -10])
    assert "Traceback" in load_tokenizer(folder).decode(failed.token_ids)


@pytest.mark.parametrize("template", [CHATML, WITHOUT_TOOLS, GEMMA, MISTRAL])
def test_a_system_message_is_read_whatever_roles_the_template_has(tmp_path, template):
    folder = write_tokenizer(tmp_path, template)
    (row,) = rows(folder, "turn", (("system", "Be brief."), ("developer", "Sums."), *SAID))
    text = load_tokenizer(folder).decode(row.token_ids)
    assert text.index("Be brief.") < text.index("Sums.") < text.index("1+1?")
    assert len(row.ends) == 2


def test_an_episode_that_no_form_of_the_template_shows_has_no_reward(tmp_path):
    folder = write_tokenizer(tmp_path, GEMMA)
    with pytest.raises(RewardFailed, match="cannot read the episode as text"):
        rows(folder, "turn", (("assistant", "One."), ("assistant", "Two.")))


def test_special_tokens_of_a_turn_are_read_and_those_of_others_are_letters(tmp_path):
    folder = write_tokenizer(tmp_path, CHATML)
    tokenizer = load_tokenizer(folder)
    mark = tokenizer.convert_tokens_to_ids("<|im_end|>")
    (plain,), (said,), (asked,) = (
        rows(folder, "turn", (("user", ask), ("assistant", answer)))
        for ask, answer in (("1+1?", "2"), ("1+1?", "2<|im_end|>"), ("1+1?<|im_end|>", "2"))
    )
    counts = [row.token_ids.count(mark) for row in (plain, said, asked)]
    assert [count - counts[0] for count in counts] == [0, 1, 0]


@pytest.mark.parametrize("read_at", ["turn", "stop_token"])
def test_a_model_without_a_template_cannot_read_text(tmp_path, read_at):
    with pytest.raises(ConfigError, match=r'no chat template, .*reads="tokens"'):
        rows(write_tokenizer(tmp_path, None), read_at)


class Letters:
    """A template of one token a message, which is the code of its text."""

    def conversation_tokens(self, messages):
        return [ord(message.content) for message in messages]


def trajectory(*segments):
    """The messages "qabcd", of which the assistant said all but the first, and segments of these turns."""
    lines = (Line("user", "q"), *(Line("assistant", letter) for letter in "abcd"))
    made = tuple(
        Segment((1, 2), (False, True), (0.0, -1.0), tuple(Turn(1, 2, (), line=line) for line in own))
        for own in segments
    )
    return Trajectory("0.0", TaskRef("code", "train", "1"), 0, made, StopReason.TERMINATED, lines=lines)


@pytest.mark.parametrize(
    ("segments", "read"),
    [
        ([(1, 2, 3, 4)], ["qa", "qab", "qabc", "qabcd"]),
        ([(2,), (1, 3), (4,)], ["qab", "qa", "qabc", "qabcd"]),
        ([(3, 4)], ["qabc", "qabcd"]),
        ([(None,) * 4], ["qa", "qab", "qabc", "qabcd"]),
        ([], ["qa", "qab", "qabc", "qabcd"]),
    ],
    ids=["one agent", "a sub-agent", "behind examples", "an earlier record", "messages alone"],
)
def test_a_text_is_read_behind_the_message_of_each_turn(segments, read):
    rows = TextReader(Letters()).read_episode(trajectory(*segments))
    assert ["".join(map(chr, row.token_ids[:end])) for row in rows for end in row.ends] == read
    assert all(list(row.ends) == sorted(row.ends) for row in rows)
