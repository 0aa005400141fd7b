"""What can go wrong in training, named after the boundary that the failure crossed.

    TrainerError
      ConfigError          a run file or a word is wrong; the sentence says where
      DataError            a data file does not fit
      ServiceUnavailable   the sandbox service cannot be reached or started
      EngineError          a rollout engine
        EngineLost         it died; the turn may be asked of another
          EngineGone       and it is not started again
        StaleWeights       its log-probabilities are not the learner's
      Stalled              a wait passed its deadline; says what was waited for
        NoProgress           of episodes: beginning again would wait as long
      CheckpointError      a checkpoint cannot be read or does not belong to the run

Picklable, since Ray sends them between processes.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "EngineError",
    "EngineGone",
    "EngineLost",
    "NoProgress",
    "ServiceUnavailable",
    "StaleWeights",
    "Stalled",
    "TrainerError",
]


class TrainerError(Exception):
    """Training cannot go on as it was asked to."""


class ConfigError(TrainerError, ValueError):
    """A run file or a ``key=value`` word is wrong."""


class DataError(TrainerError, ValueError):
    """A data file does not fit; the sentence names file and line."""


class ServiceUnavailable(TrainerError, ConnectionError):
    """The sandbox service cannot be reached or started."""


class EngineError(TrainerError, RuntimeError):
    """A rollout engine failed."""


class EngineLost(EngineError):
    """An engine died under a request; nothing was sampled, and another engine may be asked."""


class EngineGone(EngineLost):
    """An engine died, and is not started again."""


class StaleWeights(EngineError):
    """An engine samples with other weights than the learner sent."""


class Stalled(TrainerError, TimeoutError):
    """A wait passed its deadline."""


class NoProgress(Stalled):
    """Episodes make no progress, or not enough of it."""


class CheckpointError(TrainerError, RuntimeError):
    """A checkpoint cannot be read or does not belong to this run."""
