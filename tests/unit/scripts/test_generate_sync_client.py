from pathlib import Path

import pytest

from scripts.generate_sync_client import CLIENT, PAIRS, main, synchronous


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.target.stem)
def test_a_synchronous_module_is_up_to_date(pair) -> None:
    written = synchronous(pair, pair.source.read_text())
    assert pair.target.read_text() == written, "run python -m scripts.generate_sync_client"


def test_a_change_of_the_asynchronous_client_reaches_the_synchronous_one() -> None:
    method = (
        "    async def probe_twice(self) -> bool:\n        return await self.ready() and await self.ready()\n"
    )
    written = synchronous(CLIENT, CLIENT.source.read_text() + "\n" + method)
    assert "def probe_twice(self) -> bool:\n        return self.ready() and self.ready()\n" in written
    assert "async " not in written
    assert "await " not in written


@pytest.mark.parametrize(
    ("pair", "sentence"), [(pair, sentence) for pair in PAIRS for sentence in pair.sentences]
)
def test_a_sentence_that_no_longer_occurs_is_refused(pair, sentence: str) -> None:
    with pytest.raises(ValueError, match="correct its sentences"):
        synchronous(pair, pair.source.read_text().replace(sentence, ""))


def test_a_module_that_is_out_of_date_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / CLIENT.target.name).write_text("")
    assert main(["--check"], tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
