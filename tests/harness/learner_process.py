"""A learner for tests on GPUs, on a GPU of its own or on the engine's: as an actor, or called directly."""

import torch

from tests.fakes.weight_owner import ModelOwner
from trainer.config import RunConfig
from trainer.engines.fleet import engine_handles
from trainer.weight_sync.sync import make_weight_sync

MOVE = 0.05


class LearnerProcess:
    """Sends a model to an engine whose weights it moves."""

    def __init__(self, config, model, device="cuda", handles=None):
        run = RunConfig.model_validate_json(config)
        self._device = device
        self._owner = ModelOwner(model)
        self._owner.model.to(device)
        self._sync = make_weight_sync(
            run.sync_settings,
            engine_handles(run.engine_settings) if handles is None else handles,
            self._owner,
            0,
        )

    def sync_weights(self, version):
        """After a move, which is drawn on the CPU; the report."""
        self._owner.model.cpu()
        self._owner.move(MOVE, seed=version)
        self._owner.model.to(self._device)
        return self._sync.report(version)

    def sleep_engines(self):
        """Have engines leave the GPU; bytes that are free on it then."""
        self._sync.sleep_engines()
        return torch.cuda.mem_get_info()[0]

    def logprobs(self, token_ids):
        """Of each token."""
        return [float(value) for value in self._owner.logprobs(token_ids)]
