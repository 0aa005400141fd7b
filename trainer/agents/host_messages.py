"""Messages between a player and an agent host: one JSON document per line of a socket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from sandbox_contract.agents import AgentTask

from .launcher import AgentJob


def _sendable(text: str) -> str:
    """Return a text with ``?`` for lone surrogates, which no document can carry.

    Errors have them: they quote a model's JSON, which can escape one, or a file's undecodable name.
    """
    return text.encode("utf-8", "replace").decode()


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)

    def line(self) -> bytes:
        """Return the document as a line."""
        return self.model_dump_json().encode() + b"\n"


class HostSettings(_Document):
    """The settings of a host; the first line that it gets."""

    function: str | None = None
    """``module:function``, where agents are functions."""
    command: tuple[str, ...] = ()
    """A command's words, where they are commands."""
    environment: dict[str, str] = {}
    """Further environment variables of agents."""
    python_path: str | None = None
    """``PYTHONPATH`` of agents; the host's own is for the host alone."""


class HostOrder(_Document):
    """An order to a host."""

    kind: Literal["run", "cancel", "ping"]
    number: int = 0
    """Of the job, or of the ping."""
    trajectory_id: str = ""
    task: AgentTask | None = None
    api_key: str = ""
    instance_id: str = ""
    timeout_s: float = 0.0

    @classmethod
    def run(cls, number: int, job: AgentJob) -> HostOrder:
        """Return the order to run a job."""
        return cls(
            kind="run",
            number=number,
            trajectory_id=job.trajectory_id,
            task=job.task,
            api_key=job.api_key,
            instance_id=job.instance_id,
            timeout_s=job.timeout_s,
        )

    @property
    def job(self) -> AgentJob:
        """The job of an order to run one."""
        if self.task is None:
            raise ValueError(f"an order to {self.kind} has no job")
        return AgentJob(self.trajectory_id, self.task, self.api_key, self.instance_id, self.timeout_s)


class HostReport(_Document):
    """A report of a host."""

    kind: Literal["ready", "unusable", "ended", "pong"]
    number: int = 0
    """Of the job, or of the ping."""
    error: Annotated[str, AfterValidator(_sendable)] | None = None
    """The reason why the agent cannot be run, or its failure; None for an agent that ended by itself."""
