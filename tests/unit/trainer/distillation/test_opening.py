"""A teacher's server is tried out before a run plays anything."""

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.harness.http_server import serving
from trainer.config.distillation import ServerTeacher
from trainer.distillation.opening import open_teacher
from trainer.errors import ConfigError


class Words:
    """A tokenizer that gives each word a number."""

    def encode(self, text):
        return list(range(len(text.split())))


def teacher_app(shift=0):
    """A server that gives each word of a prompt a number, from ``shift`` on."""

    async def complete(request):
        words = (await request.json())["prompt"].split()
        entries = [None, *({str(number + shift): {"logprob": -1.0}} for number in range(1, len(words)))]
        return JSONResponse({"choices": [{"text": "x", "prompt_logprobs": entries}]})

    return Starlette(routes=[Route("/v1/completions", complete, methods=["POST"])])


async def test_a_teacher_with_the_tokenizer_of_the_model_is_opened() -> None:
    with serving(teacher_app()) as address:
        async with open_teacher(ServerTeacher(base_url=f"{address}/v1", model="m"), Words()):
            pass


async def test_one_with_another_tokenizer_is_refused() -> None:
    with serving(teacher_app(shift=1)) as address:
        opening = open_teacher(ServerTeacher(base_url=f"{address}/v1", model="m"), Words())
        with pytest.raises(ConfigError, match="has another tokenizer than the model"):
            async with opening:
                pass


async def test_one_that_cannot_be_asked_names_the_setting() -> None:
    opening = open_teacher(ServerTeacher(base_url="http://127.0.0.1:9/v1", model="m", attempts=1), Words())
    with pytest.raises(ConfigError, match=r"^algorithm\.distillation\.teacher: .* cannot be asked"):
        async with opening:
            pass
