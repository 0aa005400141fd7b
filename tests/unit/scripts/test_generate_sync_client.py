from pathlib import Path

import pytest

from scripts.generate_sync_client import SENTENCES, SOURCE, TARGET, main, synchronous


def test_the_synchronous_client_is_up_to_date() -> None:
    assert TARGET.read_text() == synchronous(SOURCE.read_text()), "run python -m scripts.generate_sync_client"


def test_a_change_of_the_asynchronous_client_reaches_the_synchronous_one() -> None:
    method = (
        "    async def probe_twice(self) -> bool:\n        return await self.ready() and await self.ready()\n"
    )
    written = synchronous(SOURCE.read_text() + "\n" + method)
    assert "def probe_twice(self) -> bool:\n        return self.ready() and self.ready()\n" in written
    assert "async " not in written
    assert "await " not in written


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_that_no_longer_occurs_is_refused(sentence: str) -> None:
    with pytest.raises(ValueError, match="correct SENTENCES"):
        synchronous(SOURCE.read_text().replace(sentence, ""))


def test_a_module_that_is_out_of_date_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "sync_client.py"
    stale.write_text("")
    assert main(["--check"], stale) == 1
    assert "out of date" in capsys.readouterr().err
    assert main([], stale) == 0
    assert main(["--check"], stale) == 0
