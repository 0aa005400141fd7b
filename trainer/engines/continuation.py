"""A turn that is sampled in several goes, since weight updates or dead engines came between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.types import VersionSpan

from .generation import Finish, Generation

if TYPE_CHECKING:
    from .generation import GenerationRequest


STRIDE = 1_000_003


@dataclass(frozen=True, slots=True)
class Continuation:
    """What was asked for, and what there is of it."""

    request: GenerationRequest
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    versions: tuple[VersionSpan, ...] = ()

    @property
    def complete(self) -> bool:
        """No token may follow."""
        return len(self.token_ids) >= self.request.max_tokens

    def rest(self) -> GenerationRequest:
        """The request for what is missing.

        Its seed is another one for each beginning: with the same, tokens would be drawn with the very random
        numbers that the first ones were drawn with.
        """
        done = len(self.token_ids)
        if done == 0:
            return self.request
        seed = self.request.seed
        return replace(
            self.request,
            token_ids=self.request.token_ids + self.token_ids,
            max_tokens=self.request.max_tokens - done,
            seed=None if seed is None else (seed + STRIDE * done) % 2**63,
        )

    def then(self, part: Generation) -> Continuation:
        """With what was sampled next."""
        done = len(self.token_ids)
        versions = list(self.versions)
        for span in part.versions:
            start, end = span.start + done, span.end + done
            if versions and versions[-1].version == span.version:
                versions[-1] = replace(versions[-1], end=end)
            else:
                versions.append(VersionSpan(start, end, span.version))
        return replace(
            self,
            token_ids=self.token_ids + part.token_ids,
            logprobs=self.logprobs + part.logprobs,
            versions=tuple(versions),
        )

    def ended(self, finish: Finish) -> Generation:
        """All of it."""
        return Generation(self.token_ids, self.logprobs, finish, self.versions)
