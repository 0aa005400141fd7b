"""The package that verifiers loads by the id ``sandbox-taskset``: ``sandbox_client.adapters.verifiers``."""

from sandbox_client.adapters.verifiers import SandboxEpisodes, SandboxTask, SandboxTaskset

__all__ = ["SandboxEpisodes", "SandboxTask", "SandboxTaskset"]
