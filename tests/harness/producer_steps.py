"""Helpers of the batch producer's tests: start one, sync weights, compare batches."""

import json

import numpy as np

from tests.fakes.batches import batch_producer


async def started(config, folder, player, **parts):
    made = batch_producer(config, folder, player, **parts)
    await made.start()
    return made


async def sync_weights(made, player, version):
    player.version = version
    await made.weights_synced(version)


def same(batch, other):
    """Batches are equal to the last number."""
    if batch.step != other.step or batch.metrics != other.metrics or len(batch.samples) != len(other.samples):
        return False
    return all(
        mine.id == theirs.id
        and mine.weight == theirs.weight
        and all(
            np.array_equal(getattr(mine, name), getattr(theirs, name))
            for name in ("token_ids_T", "mask_T", "logprobs_T", "rewards_T", "turns_T", "versions_T")
        )
        for mine, theirs in zip(batch.samples, other.samples, strict=True)
    )


def ids(batch):
    return [sample.trajectory_id for sample in batch.samples]


def consumed(folder):
    return [json.loads(line) for line in (folder / "consumed.jsonl").read_text().splitlines()]
