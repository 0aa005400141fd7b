import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox_service.environments.code.proxies import (
    CandidateError,
    CandidateLost,
    CandidateTimeout,
    Handle,
    Session,
)
from sandbox_service.environments.code.trials import ENTRY
from tests.fakes.agent import FakeAgent

Load = Callable[..., Session]


@pytest.fixture
def load(agent: FakeAgent) -> Iterator[Load]:
    started = []

    def start(source: str, limit_s: float = 10.0, *, write_back: bool = False) -> Session:
        started.append(agent.candidate(ENTRY))
        session = Session(started[-1], time.monotonic() + limit_s, write_back=write_back)
        session.load(source)
        return session

    yield start
    for candidate in started:
        candidate.close()


def test_functions_are_called_by_value(load: Load) -> None:
    grow = load("def grow(items, by=1):\n    items.append(by)\n    return items").get("grow")
    items = [1]
    assert grow(items, by=2) == [1, 2]
    assert items == [1]


def test_changes_of_arguments_come_back_when_asked(load: Load) -> None:
    source = (
        "def change(items, table, members, data, text):\n"
        "    items.reverse(); table['new'] = 1; members.clear(); data.extend(b'!')"
    )
    change = load(source, write_back=True).get("change")
    items, table, members, data = [1, 2, 3], {"old": 0}, {1}, bytearray(b"a")
    change(items, table, members, data, "text")
    assert (items, table, members, data) == ([3, 2, 1], {"old": 0, "new": 1}, set(), bytearray(b"a!"))


POINT = """
class Point:
    kind = "point"
    def __init__(self, x, y=0):
        self.x, self.y = x, y
    def moved(self, by):
        return Point(self.x + by, self.y)
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 1
    def __len__(self):
        return 2
    def __iter__(self):
        yield self.x
        yield self.y
    def __getitem__(self, index):
        return [self.x, self.y][index]
    def __contains__(self, value):
        return True
    def __str__(self):
        return f"<{self.x}>"
    __repr__ = __str__
def origin():
    return Point(0)
def same(first, second):
    return first is second
class Empty:
    def __bool__(self):
        return False
"""


def test_classes_work_through_handles(load: Load) -> None:
    session = load(POINT)
    point = session.get("Point")(3, y=4)
    assert isinstance(point, Handle)
    assert (point.x, point.y, point.kind) == (3, 4, "point")
    assert point.moved(2).x == 5
    point.x = [1]
    assert point.x == [1]
    assert list(point) == [[1], 4]
    assert (len(point), point[1], str(point), repr(point)) == (2, 4, "<[1]>", "<[1]>")
    assert isinstance(point, session.get("Point"))
    assert not isinstance(3, session.get("Point"))
    assert session.get("same")(point, point) is True
    assert bool(point)
    assert not session.get("Empty")()


def test_handles_equal_nothing_and_hide_no_containment(load: Load) -> None:
    session = load(POINT)
    point = session.get("origin")()
    for other in (point, 0, None, [0, 0], session.get("origin")()):
        assert (point == other) is False
        assert (other == point) is False
    assert point not in [1, 2, (point,)]
    assert 7 not in point
    assert len({point, point}) == 1


@pytest.mark.parametrize("expression", ["point + 1", "point < 1", "abs(point)", "float(point)", "[1][point]"])
def test_handles_have_no_arithmetic(load: Load, expression: str) -> None:
    point = load(POINT).get("origin")()
    with pytest.raises(TypeError):
        eval(expression, {"point": point})


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        ("ValueError('why')", ValueError),
        ("KeyError('k')", KeyError),
        ("ZeroDivisionError()", ZeroDivisionError),
        ("FileNotFoundError(2, 'x')", FileNotFoundError),
        ("type('Mine', (IndexError,), {})()", IndexError),
        ("type('Mine', (Exception,), {})('x')", CandidateError),
        ("UnicodeDecodeError('utf-8', b'', 0, 1, 'x')", ValueError),
        ("SystemExit(0)", CandidateError),
        ("KeyboardInterrupt()", CandidateError),
        ("GeneratorExit()", CandidateError),
        ("StopIteration(3)", CandidateError),
        ("ExceptionGroup('g', [ValueError()])", CandidateError),
        ("type('Mute', (ValueError,), {'__str__': lambda self: 1 / 0})()", ValueError),
    ],
)
def test_exceptions_come_back_by_name(load: Load, raised: str, seen: type[Exception]) -> None:
    function = load(f"def f():\n    raise {raised}").get("f")
    with pytest.raises(seen) as caught:
        function()
    assert type(caught.value) is seen


def test_missing_names_are_attribute_errors(load: Load) -> None:
    with pytest.raises(AttributeError):
        load("x = 1").get("y")


def test_generators_are_read_item_by_item(load: Load) -> None:
    session = load("def count():\n    n = 0\n    while True:\n        yield n\n        n += 1")
    numbers: list[Any] = []
    for number in session.get("count")():
        numbers.append(number)
        if number == 3:
            break
    assert numbers == [0, 1, 2, 3]


def test_the_trusted_side_passes_data_only(load: Load) -> None:
    same = load(POINT).get("same")
    with pytest.raises(CandidateError, match="cannot be passed"):
        same(lambda: 1, object())


def test_silence_past_the_deadline_is_a_timeout(load: Load) -> None:
    function = load("def f():\n    while True: pass", 0.5).get("f")
    with pytest.raises(CandidateTimeout):
        function()
    with pytest.raises(CandidateTimeout):
        function()


def test_leaving_is_a_loss(load: Load) -> None:
    function = load("import os\ndef f():\n    os._exit(0)").get("f")
    with pytest.raises(CandidateLost):
        function()


FORGE = """
import sys
def find(kind):
    frame = sys._getframe()
    while frame:
        if kind in frame.f_locals:
            return frame.f_locals[kind]
        frame = frame.f_back
def forge():
    find("send")({answer})
"""


@pytest.mark.parametrize(
    "answer",
    [
        {"value": {"$": "exec", "v": "1"}},
        {"value": {"$": "handle", "v": -1.5}},
        {"error": {"types": ["SystemExit"], "text": 3}},
        {"error": None},
        {"error": {"types": 5}},
        {"stop": True},
    ],
    ids=str,
)
def test_forged_answers_are_errors_of_the_candidate(load: Load, answer: dict) -> None:
    function = load(FORGE.replace("{answer}", repr(answer))).get("forge")
    with pytest.raises(CandidateError):
        function()
