"""Render conversations with a tokenizer's chat template, in forms that many model families accept.

Every rendered text is checked for its parts: the content of each message, the name of each call and of each
tool. A form that drops something counts as rejected, and the next one is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from sandbox_contract.messages import FunctionSchema, Message, Tool
from trainer.errors import ConfigError
from trainer.tool_answers import named

from .containment import missing
from .forms import Form, TemplateDialect, forms
from .framing import ANSWERED, SAID, TOOL_NAME, Marks, TurnEnding, calling, spoken, tool_answer
from .literals import Literals
from .placeholders import shape_of, without_arguments, without_short_contents, without_words
from .thought_places import ThoughtPlace, thought_place
from .thoughts import CLOSE, opened, own_marks

if TYPE_CHECKING:
    from pydantic import JsonValue
    from transformers import PreTrainedTokenizerBase

    from .framing import PlaceholderExchange


_REFUSALS = (TemplateError, TypeError, ValueError, KeyError, AttributeError)
"""Exceptions that templates raise for messages that they do not support."""
_KIMI = "## Return of"
"""Kimi K2 identifies calls by ids that contain the tool's name."""
_MOST_SHAPES = 4096
_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"said": {"type": "string", "description": "A made-up argument."}},
    "required": ["said"],
}
_TOOL = Tool(function=FunctionSchema(name=TOOL_NAME, description="A made-up tool.", parameters=_SCHEMA))
"""A schema with all fields that templates read: some reject a tool without properties."""


class Template:
    """One tokenizer's template. Raises ConfigError where it rejects a conversation in every form.

    Args:
        tokenizer: its tokens end turns.
        source: the Jinja source.
        arguments: further arguments of the template.
        ends: texts of the tokens that the model's folder declares as ends.
        written: turns a message with calls into text, for templates without a notation for calls.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        source: str,
        arguments: Mapping[str, JsonValue],
        ends: Collection[str],
        written: Callable[[Message], str],
    ) -> None:
        self._tokenizer = tokenizer
        self._source = source
        self._arguments = dict(arguments)
        self._written = written
        self._literals = Literals(tokenizer, source)
        self._marks = Marks(tokenizer, ends)
        self._complete: set[object] = set()
        """Shapes of conversations whose short contents were all rendered."""
        self.thought_marks = own_marks(source)
        """The marks that the family writes around a thought."""
        self._unasked: tuple[Tool, ...] = ()
        """Tools for renderings that need none, for templates that require some."""
        plain = None
        for tools in ((), (_TOOL,)):
            self._unasked = tools
            self._dialect = self._with_thoughts(self._found_dialect())
            plain = plain or self._turn_ending(spoken(), Message(role="user", content=ANSWERED))
            if plain is not None:
                break
        else:
            why = self._attempt(Form(self._dialect), spoken().messages, (), False)[1]
            because = f": {' '.join(why.split())}" if why else ""
            raise ConfigError(
                "the chat template does not render a user message followed by an assistant "
                f"message{because}; set chat.template to one that does"
            )
        self._plain = plain
        asked = [Message(role="user", content=".")]
        self.opens_thoughts = bool(opened(self._attempt(Form(self._dialect), asked, self._unasked, True)[0]))
        """Whether a prompt usually opens the thought, so that turns lack the mark."""
        self._calls: TurnEnding | None = None
        self._calls = (
            self._turn_ending(calling([tool_answer()]), tool_answer()) if self._dialect.calls else None
        )

    @property
    def ends(self) -> tuple[str, ...]:
        """Return texts of the tokens that end a turn, by the template; the one for plain text comes first."""
        return tuple(dict.fromkeys(end for calls in (False, True) if (end := self.end_token(calls=calls))))

    def end_token(self, *, calls: bool) -> str:
        """Return the token that the model itself writes at the end of a turn, with calls or without."""
        ending = self._calls if calls and self._calls is not None else self._plain
        if ending.end:
            return next(iter(ending.ends - {ending.end}), ending.end)
        answer = tool_answer() if calls else Message(role="user", content=ANSWERED)
        return self._marks.first(self.following([answer], None))

    @property
    def takes_thoughts(self) -> bool:
        """Whether the template writes a thought itself, with the marks around it."""
        return self._dialect.thoughts is ThoughtPlace.FIELDS

    @property
    def writes_calls(self) -> bool:
        """Whether the template has a notation for tool calls."""
        return self._dialect.calls

    @property
    def one_call(self) -> bool:
        """Whether it renders only the first of a message's calls."""
        return self._dialect.one_call

    def renders_tools(self) -> bool:
        """Return whether the template renders tools."""
        asked = [Message(role="user", content=".")]
        for head in ([], [Message(role="system", content=".")]):
            try:
                return bool(self.render([*head, *asked], [_TOOL]))
            except ConfigError:
                continue
        return False

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        generation: bool = True,
        as_written: bool = False,
    ) -> str:
        """Render a whole conversation; with ``generation`` up to the start of the assistant's turn.

        ``as_written``: special tokens in the text of the assistant's messages remain special.
        """
        refusal = ""
        messages = self._literals.hidden(named(messages), as_written=as_written)
        for form in forms(self._dialect, messages):
            prepared = form.messages(messages, self._written)
            text, refused = self._rendered(form, (), prepared, tools, generation)
            refused = refused or _left_out(missing(text, prepared) or _missing_tools(text, tools))
            refused = refused or self._dropped_part(form, (), prepared, tools, generation)
            if not refused:
                return text
            refusal = refusal or refused
        raise _refusal(self._literals.shown(refusal))

    def following(self, messages: Sequence[Message], last: str | None) -> str:
        """Render what follows an assistant's turn, up to the start of its next one.

        ``last`` is the text of the turn's last token; None stands for the template's own end. If the turn
        did not end with the template's end token, that token comes first.
        """
        refusal = ""
        messages = self._literals.hidden(messages)
        for form in forms(self._dialect, messages):
            prepared = form.messages(messages, self._written)
            for ending, exchange in self._exchanges(prepared):
                text, refused = self._rendered(form, exchange.messages, prepared, self._unasked, True)
                behind = ending.behind(text.partition(SAID)[2])
                lost = "an assistant's turn" if behind is None else missing(behind, prepared)
                refused = refused or _left_out(lost)
                refused = refused or self._dropped_part(
                    form, exchange.messages, prepared, self._unasked, True
                )
                if behind is not None and not refused:
                    return self._joined(ending, behind, last)
                refusal = refusal or refused
        raise _refusal(self._literals.shown(refusal))

    def turn(self, message: Message) -> str | None:
        """Render a turn between its head and its end; None where the two differ from a sampled turn's.

        They differ where the head before a sampled turn is not the one in a history. If the head differs
        only in that it opens a thought, and the history closes one, the turn closes it.
        """
        if self._dialect.one_call and len(message.tool_calls or ()) > 1:
            return None
        try:
            head, whole = self._turn_in_history(message)
        except ConfigError:
            return None
        if whole.startswith(head):
            return self._unended(whole[len(head) :], message)
        opens, turn = self._marks.behind(whole, head), self._marks.behind(head, whole)
        closes = bool(opens) and opens.strip() == opened(head) and turn.lstrip().startswith(CLOSE)
        return self._unended(turn, message) if closes else None

    def shown(self, rendered: str) -> str:
        """Return a rendered text as readers see it."""
        return self._literals.shown(rendered)

    def hidden(self, message: Message) -> Message:
        """Return a message whose text cannot be mistaken for special tokens, as rendered messages are."""
        return self._literals.hidden([message])[0]

    def notation(self, message: Message) -> str:
        """Return the template's notation of a turn, after the common part with the head of a sampled turn."""
        return self._unended(self._marks.behind(*self._turn_in_history(message)), message)

    def _turn_in_history(self, message: Message) -> tuple[str, str]:
        """Return a rendered question up to the start of the turn, and the question with the turn."""
        asked = Message(role="user", content=".")
        head = self.render([asked], self._unasked)
        return head, self.render([asked, message], self._unasked, generation=False)

    def _unended(self, text: str, message: Message) -> str:
        end = self.end_token(calls=bool(message.tool_calls))
        return text.rpartition(end)[0] if end and end in text else text

    def encode(self, rendered: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the tokens of a text that the template rendered."""
        return self._literals.encode(rendered, encode)

    def _exchanges(self, messages: Sequence[Message]) -> Iterator[tuple[TurnEnding, PlaceholderExchange]]:
        """Yield exchanges that may precede the messages; templates want calls before a tool's message, or
        none.
        """
        answers = [message for message in messages if message.role == "tool"]
        if answers and self._calls is not None:
            yield self._calls, calling(answers)
            yield self._calls, calling(answers[:1])
        yield self._plain, spoken()

    def _joined(self, ending: TurnEnding, behind: str, last: str | None) -> str:
        if not ending.end:
            # The next role's token ends the turn; if it was sampled, do not add it again.
            return behind.removeprefix(last) if last and last == self._marks.first(behind) else behind
        return behind if last is None or last in ending.ends else ending.end + behind

    def _rendered(
        self,
        form: Form,
        before: Sequence[Message],
        messages: Sequence[Message],
        tools: Sequence[Tool],
        generation: bool,
    ) -> tuple[str, str]:
        """Return the text of messages ``before`` and others, and the reason when it lacks words of the
        others.
        """
        given, words = without_words(messages) if form.words_apart else (messages, dict[str, str]())
        text, refused = self._attempt(form, [*before, *given], tools, generation)
        if refused:
            return text, refused
        if any(text.count(placeholder) != 1 for placeholder in words):
            return text, _left_out("the content of a message of role 'assistant'")
        for placeholder, said in words.items():
            text = text.replace(placeholder, said)
        return text, ""

    def _dropped_part(
        self,
        form: Form,
        before: Sequence[Message],
        messages: Sequence[Message],
        tools: Sequence[Tool],
        generation: bool,
    ) -> str:
        """Return the reason when the text lacks a call or a short content; it takes one rendering."""
        given = without_words(messages)[0] if form.words_apart else messages
        given, names = without_arguments(given)
        given, roles = without_short_contents(given)
        parts = {mark: f"a call of {name!r}" for mark, name in names.items()}
        parts |= {mark: f"the content of a message of role {role!r}" for mark, role in roles.items()}
        # A short content is dropped for the place of its message; calls are looked at each time.
        calls = tuple(len(each.tool_calls or ()) for each in before)
        shape = None if names else (form, calls, bool(tools), generation, shape_of(messages))
        if not parts or shape in self._complete:
            return ""
        text, refused = self._attempt(form, [*before, *given], tools, generation)
        lost = [part for placeholder, part in parts.items() if placeholder not in text]
        if shape is not None and not lost and len(self._complete) < _MOST_SHAPES:
            self._complete.add(shape)
        return _left_out(lost[0]) if lost and not refused else ""

    def _attempt(
        self, form: Form, messages: Sequence[Message], tools: Sequence[Tool], generation: bool
    ) -> tuple[str, str]:
        """Return the rendered text, and the reason when there is none."""
        apply: Callable[..., object] = self._tokenizer.apply_chat_template
        try:
            rendered = apply(
                [form.json(message) for message in messages],
                tools=[tool.model_dump(mode="json") for tool in tools] or None,
                chat_template=self._source,
                add_generation_prompt=generation,
                tokenize=False,
                **self._arguments,
            )
        except _REFUSALS as error:
            return "", f"{error}"
        return str(rendered), ""

    def _turn_ending(self, exchange: PlaceholderExchange, answer: Message) -> TurnEnding | None:
        form = Form(self._dialect)
        alone, refused = self._attempt(form, exchange.messages, self._unasked, False)
        followed, refused_too = self._attempt(form, [*exchange.messages, answer], self._unasked, True)
        if refused or refused_too or SAID not in alone or SAID not in followed or ANSWERED not in followed:
            return None
        end = self._plain.end if exchange.calls else ""
        tails = (text.partition(SAID)[2] for text in (alone, followed))
        ending = self._marks.turn_ending(*tails, calls=exchange.calls, end=end)
        return None if exchange.calls and self._ends_each_call(ending.end) else ending

    def _ends_each_call(self, end: str) -> bool:
        """Return whether a token ends calls but not the turn: the template omits the turn's own end."""
        two = calling([tool_answer(), tool_answer()]).messages
        text, _ = self._attempt(Form(self._dialect), two, self._unasked, False)
        return bool(end) and text.partition(TOOL_NAME)[2].count(end) > 1

    def _found_dialect(self) -> TemplateDialect:
        plain = TemplateDialect(named_ids=_KIMI in self._source, marks=self.thought_marks)
        answer = tool_answer()
        for as_text, as_none in ((False, False), (True, True), (False, True), (True, False)):
            dialect = replace(plain, arguments_as_text=as_text, empty_as_none=as_none)
            for answers in ([answer], []):
                prepared = [*calling([answer]).messages, *answers]
                text, _ = self._attempt(Form(dialect), prepared, self._unasked, False)
                if SAID in text and TOOL_NAME in text:
                    tool_role = ANSWERED in text or self._shows_answer(dialect)
                    return replace(dialect, tool_role=tool_role, one_call=self._drops_calls(dialect))
        return replace(plain, calls=False, tool_role=self._shows_answer(plain))

    def _drops_calls(self, dialect: TemplateDialect) -> bool:
        """Return whether a template that takes several calls of a message renders only the first."""
        two = calling([tool_answer(), tool_answer()]).messages
        text, _ = self._attempt(Form(dialect), two, self._unasked, False)
        return TOOL_NAME in text and SAID not in text

    def _with_thoughts(self, dialect: TemplateDialect) -> TemplateDialect:
        def rendered(messages: list[Message], place: ThoughtPlace) -> str:
            return self._attempt(Form(replace(dialect, thoughts=place)), messages, self._unasked, False)[0]

        return replace(dialect, thoughts=thought_place(rendered, self.thought_marks))

    def _shows_answer(self, dialect: TemplateDialect) -> bool:
        text, _ = self._attempt(Form(dialect), [*spoken().messages, tool_answer()], self._unasked, True)
        return ANSWERED in text


def template_source(tokenizer: PreTrainedTokenizerBase, *, tools: bool) -> str | None:
    """Return the tokenizer's template; of several, the one for tools where it renders them."""
    found: object = tokenizer.chat_template
    if isinstance(found, dict):
        names = ("tool_use", "default") if tools else ("default",)
        found = next((found[name] for name in names if name in found), None) or next(
            iter(found.values()), None
        )
    return found if isinstance(found, str) and found else None


def _missing_tools(text: str, tools: Sequence[Tool]) -> str:
    name = next((tool.function.name for tool in tools if tool.function.name not in text), None)
    return f"the tool {name!r}" if name is not None else ""


def _left_out(what: str) -> str:
    return f"it leaves out {what}" if what else ""


def _refusal(why: str) -> ConfigError:
    return ConfigError(
        f"the chat template rejects a conversation: {why}; set chat.template to one that accepts it"
    )
