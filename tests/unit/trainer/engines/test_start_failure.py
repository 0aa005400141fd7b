import os

import pytest

from trainer.engines.start_failure import start_failure

ELSEWHERE = RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")
WITHOUT_ROOM = """\
Capturing CUDA graphs: 100%|####| 51/51
Traceback (most recent call last):
  File "worker.py", line 1, in init
    raise KeyError(name)
KeyError: 'w'

During handling of the above exception, another exception occurred:
    raise ValueError(
(EngineCore pid=12) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
and more
"""


def test_the_cause_is_the_last_error_that_a_process_of_vllm_wrote(tmp_path):
    output = tmp_path / "worker.err"
    output.write_text("x" * 100_000 + "\n" + WITHOUT_ROOM)
    error = start_failure(ELSEWHERE, output)
    assert str(error) == "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def test_an_error_that_has_its_cause_keeps_it(tmp_path):
    output = tmp_path / "worker.err"
    output.write_text(WITHOUT_ROOM)
    error = start_failure(ValueError("torch.float32 is not supported\n  for fp8"), output)
    assert str(error) == "ValueError: torch.float32 is not supported for fp8"


@pytest.mark.parametrize("kind", ["missing", "empty", "pipe"])
def test_without_output_the_error_is_vllms(tmp_path, kind):
    output = tmp_path / "worker.err"
    if kind == "empty":
        output.touch()
    elif kind == "pipe":
        os.mkfifo(output)
    assert str(start_failure(ELSEWHERE, output)).startswith("RuntimeError: Engine core initialization failed")
