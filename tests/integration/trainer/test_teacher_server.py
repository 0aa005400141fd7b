"""A teacher behind a real vLLM server: its log-probabilities are those of transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

import torch
from transformers import AutoModelForCausalLM

from local_processes.waiting import Deadline
from tests.harness.vllm_server import vllm_server
from trainer.chat import ChatTokenizer
from trainer.config.distillation import ServerTeacher
from trainer.config.model import ChatConfig, TinyModel
from trainer.distillation.server import TeacherServer
from trainer.errors import ConfigError, TeacherFailed
from trainer.models import model_folder

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SHAPE = {"tokenizer": "bpe", "hidden": 64, "layers": 1, "heads": 2, "key_value_heads": 2, "context": 512}
TEXT = "Compute 12 * 37.\n\tÄ “quoted” \u4f60\u597d"


def soon() -> Deadline:
    return Deadline.after(120)


async def test_a_server_scores_tokens_like_the_model_that_it_serves(tmp_path) -> None:
    folder = model_folder(TinyModel.model_validate(SHAPE), tmp_path)
    other = model_folder(TinyModel.model_validate(SHAPE | {"tokenizer": "bytes"}), tmp_path)
    ids = ChatTokenizer(folder, ChatConfig()).encode(TEXT)
    with vllm_server(folder, tmp_path / "server.log") as url:
        config = ServerTeacher(base_url=f"{url}/v1", model="policy", attempts=1)
        teacher = TeacherServer(config)
        found = await teacher.score(ids, soon())
        again = await teacher.score(ids, soon())
        await teacher.check_tokenizer(TEXT, ids)
        with pytest.raises(ConfigError, match="another tokenizer"):
            await teacher.check_tokenizer(TEXT, ChatTokenizer(other, ChatConfig()).encode(TEXT))
        with pytest.raises(TeacherFailed, match="answered 400"):
            await teacher.score([7] * 600, soon())  # more than its context
        await teacher.close()
        absent = TeacherServer(config.model_copy(update={"model": "absent"}))
        with pytest.raises(ConfigError, match="answered 404"):
            await absent.score(ids, soon())
        await absent.close()
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logp = model(torch.tensor([ids])).logits.log_softmax(-1)[0]
    expected = [0.0, *(float(logp[place, token]) for place, token in enumerate(ids[1:]))]
    assert found == pytest.approx(expected, abs=1e-4)
    assert again == found
