from collections import Counter

import numpy as np
import pytest

from trainer.errors import DataError
from trainer.sft.batches import SFTBatches
from trainer.types import Objective, Sample


def sample(name: str) -> Sample:
    two = np.zeros(2, dtype=np.float32)
    whole = np.zeros(2, dtype=np.int32)
    return Sample(name, name.partition("#")[0], 0, whole, np.array([False, True]), two, two, whole, whole)


ROWS = [(sample(f"{number}.0"), sample(f"{number}.0#1")) for number in range(5)]


def test_a_batch_is_the_same_whenever_it_is_asked_for() -> None:
    names = [[each.id for each in SFTBatches(ROWS, 2, 1).batch(3).samples] for _ in range(2)]
    assert names[0] == names[1]
    batches = SFTBatches(ROWS, 2, 1)
    assert [each.id for each in batches.batch(0).samples] != [each.id for each in batches.batch(5).samples]


def test_a_pass_has_every_demonstration_once_with_all_its_samples_and_passes_differ() -> None:
    batches = SFTBatches(ROWS, 2, 7, {"demonstrations/success": 0.5})
    taken = [batches.batch(step) for step in range(5)]
    ids = [each.id for batch in taken for each in batch.samples]
    assert Counter(ids) == {each.id: 2 for row in ROWS for each in row}
    assert ids[:10] != ids[10:]
    assert [batch.step for batch in taken] == list(range(5))
    assert all(batch.objective is Objective.IMITATE and len(batch.samples) == 4 for batch in taken)
    assert taken[4].facts == {"demonstrations/success": 0.5, "demonstrations/epoch": 2.0}


def test_a_batch_may_be_larger_than_all_there_is() -> None:
    assert len(SFTBatches(ROWS, 12, 0).batch(0).samples) == 24


def test_seeds_differ() -> None:
    orders = {tuple(each.id for each in SFTBatches(ROWS, 5, seed).batch(0).samples) for seed in range(5)}
    assert len(orders) > 1


def test_nothing_to_imitate_is_said() -> None:
    with pytest.raises(DataError, match="no demonstration to imitate"):
        SFTBatches((), 2, 0)
