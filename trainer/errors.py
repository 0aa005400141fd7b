"""Errors of the trainer, named after the boundary that the failure crossed.

    TrainerError
      ConfigError          a run file or an override is invalid
        InvalidSettings      the file or an override cannot be read as settings
        PluginRejected       a plugin that a setting names raised, or is not what its group needs
      DataError            a data file is invalid
      ServiceUnavailable   the sandbox service cannot be reached or started
        ServiceFailed        the one that the run started exited, or did not become ready
      EngineError          a rollout engine failed
        EngineLost         its process exited; another engine may serve the turn
          EngineGone       and it is not restarted
        StaleWeights       its weights are not the learner's
      AgentFailed          an agent raised, or exited with an error
        AgentLost            what ran it ended or cannot be reached, without its doing
      RewardFailed         the run's reward function failed for an episode
        JudgeFailed          the judge gave no score
      LabelFailed          a recorded episode's steps could not be labelled
      TeacherFailed        the teacher gave no log-probabilities
      RunEnded             a condition ends the run, as configured; a restart would meet it again
        BudgetSpent          the judge's budget is spent
      Stalled              a wait passed its deadline
        NoProgress           episodes do not progress; a restart would wait as long
      CheckpointError      a checkpoint cannot be read or does not belong to the run

They are picklable, since Ray sends them between processes.
"""

from __future__ import annotations


class TrainerError(Exception):
    """Training cannot continue as configured."""


class ConfigError(TrainerError, ValueError):
    """A run file or a ``key=value`` override is invalid."""


class InvalidSettings(ConfigError):
    """A run file or an override cannot be read: an unknown key, or a value that its setting does not take."""


class PluginRejected(ConfigError):
    """A plugin that a setting names raised, or is not what its group needs."""


class DataError(TrainerError, ValueError):
    """A data file is invalid; the message names file and line."""


class ServiceUnavailable(TrainerError, ConnectionError):
    """The sandbox service cannot be reached or started."""


class ServiceFailed(ServiceUnavailable):
    """The sandbox service that the run started for itself exited, or did not become ready."""


class EngineError(TrainerError, RuntimeError):
    """A rollout engine failed."""


class EngineLost(EngineError):
    """An engine's process exited during a request; nothing was sampled, and another engine may serve it."""


class EngineGone(EngineLost):
    """An engine's process exited, and the engine is not restarted."""


class StaleWeights(EngineError):
    """An engine samples with other weights than the learner sent."""


class AgentFailed(TrainerError, RuntimeError):
    """An agent raised, or exited with an error; the message has its last words."""


class AgentLost(AgentFailed):
    """The process or server that ran an agent ended or cannot be reached, without the agent's doing."""


class RewardFailed(TrainerError, RuntimeError):
    """The run's reward function raised, passed its deadline or returned no finite number for an episode."""


class JudgeFailed(RewardFailed):
    """The judge could not be reached, passed its deadline or gave no score for an episode."""


class LabelFailed(TrainerError, RuntimeError):
    """The steps of a recorded episode could not be labelled, by no fault of theirs."""

    def __init__(self, message: str, failure_class: str) -> None:
        """``failure_class``: ``sandbox``, ``capacity``, ``timeout`` and so on; ``replay`` for an episode that
        did not repeat; ``policy`` for the model that continues; ``judge``.
        """
        super().__init__(message, failure_class)
        self.failure_class = failure_class

    def __str__(self) -> str:
        return str(self.args[0])


class TeacherFailed(TrainerError, RuntimeError):
    """The teacher could not be reached, passed its deadline or gave no log-probability of a token."""


class RunEnded(TrainerError):
    """A condition that ends the run: a restart would meet it again."""


class BudgetSpent(RunEnded):
    """The judge's budget is spent; the run can be resumed with a larger one."""


class Stalled(TrainerError, TimeoutError):
    """A wait passed its deadline."""


class NoProgress(Stalled):
    """Episodes make no or too little progress."""


class CheckpointError(TrainerError, RuntimeError):
    """A checkpoint cannot be read or does not belong to this run."""
