"""Downloads of episodes: their bounds, and how an interrupted one ends."""

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.answer_sender import AnswerSender
from sandbox_service.gateway.dispatch import Deadlines, Dispatcher
from sandbox_service.gateway.episode_export import EpisodeDownload, download_plan
from sandbox_service.gateway.exchange import HttpExchange
from sandbox_service.gateway.held_bytes import HeldBytes
from sandbox_service.trajectories.lines import LineFormat
from sandbox_service.trajectories.search import EpisodeSummary, Place
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.backend import EchoBackend


class Rows(EchoBackend):
    """A fleet that has a line for each instance, in the format that is asked for, or an error."""

    def __init__(self, *answers: bytes | ServiceError) -> None:
        super().__init__()
        self.answers = {f"s1.{number}": answer for number, answer in enumerate(answers)}

    async def call(self, op, *, tenant, instance_id, meta, body, timeout_s):
        answer = self.answers[instance_id]
        if isinstance(answer, ServiceError):
            raise answer
        part = answer[meta["offset"] :][:4]
        return Frame(Op.REPLY, 0, instance_id, {"row": meta["row"], "total": len(answer)}, part)


class EarlierRelease(EchoBackend):
    """A fleet that knows no rows, or those of JSONL only."""

    def __init__(self, **mark: bool) -> None:
        super().__init__()
        self.mark = mark

    async def call(self, op, *, tenant, instance_id, meta, body, timeout_s):
        return Frame(Op.REPLY, 0, instance_id, {"total": 2, **self.mark}, b"{}")


def episodes(*sizes):
    return [
        EpisodeSummary(Place(9.0, f"s1.{n}"), f"s1.{n}", "echo", "t", None, None, None, size=size)
        for n, size in enumerate(sizes)
    ]


async def sent(backend, count, line_format=LineFormat.JSONL):
    """The messages of a download of so many episodes, and its exchange."""
    exchange = HttpExchange("r", "GET", "/console/export", {}, tenant="ada")
    dispatcher = Dispatcher(backend, Deadlines(DeadlineConfig(), 1.0))
    messages = []

    async def send(message):
        messages.append(message)

    answers = AnswerSender(HeldBytes("answers", 1, 1), 1, 60.0)
    plan = download_plan(episodes(*[1] * count))
    download = EpisodeDownload(dispatcher, None, answers, exchange, plan, line_format)
    await download.stream_response(send)
    return messages, exchange


def body_of(messages):
    return b"".join(message.get("body", b"") for message in messages)


def test_the_newest_episodes_that_fit_are_chosen():
    plan = download_plan(episodes(4, 50, 4, 4), most_bytes=9, most_row_bytes=20)
    assert (plan.instance_ids, plan.size, plan.left_out) == (("s1.0", "s1.2"), 8, 2)


async def test_lines_come_one_after_another_and_in_parts():
    messages, _ = await sent(Rows(b'{"long": 1}\n', b"{}\n"), 2)
    assert body_of(messages) == b'{"long": 1}\n{}\n'
    assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_an_episode_that_is_gone_by_now_is_left_out():
    messages, exchange = await sent(Rows(b"1\n", ServiceError(ErrorCode.UNKNOWN_INSTANCE), b"3\n"), 3)
    assert (body_of(messages), exchange.error) == (b"1\n3\n", None)


@pytest.mark.parametrize(
    "backend",
    [Rows(ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE)), EarlierRelease(), EarlierRelease(row=True)],
    ids=["broken off", "earlier release", "release with one format"],
)
async def test_an_interrupted_download_has_no_last_chunk(backend):
    messages, exchange = await sent(backend, 1, LineFormat.ATIF)
    assert all(message.get("more_body", True) for message in messages)
    assert exchange.error is ErrorCode.SUPERVISOR_UNAVAILABLE
