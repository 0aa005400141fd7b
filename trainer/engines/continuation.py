"""A turn that is sampled in parts, because weight syncs or lost engines interrupted it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.types import VersionSpan

from .generation import Finish, Generation
from .seeds import continued_seed

if TYPE_CHECKING:
    from .generation import GenerationRequest


@dataclass(frozen=True, slots=True)
class Continuation:
    """A request, and what has been sampled of it."""

    request: GenerationRequest
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    versions: tuple[VersionSpan, ...] = ()
    cached: int | None = None
    """Of the prompt, for its first tokens: later parts find what was sampled in the cache as well."""

    @property
    def complete(self) -> bool:
        """Whether the turn has all the tokens that it may have."""
        return len(self.token_ids) >= self.request.max_tokens

    def next_request(self) -> GenerationRequest:
        """Return the request for the missing tokens, with a seed of its own."""
        done = len(self.token_ids)
        if done == 0:
            return self.request
        seed = self.request.seed
        return replace(
            self.request,
            token_ids=self.request.token_ids + self.token_ids,
            max_tokens=self.request.max_tokens - done,
            seed=None if seed is None else continued_seed(seed, done),
        )

    def then(self, part: Generation) -> Continuation:
        """Return the turn with the next part."""
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
            cached=self.cached if done else part.cached,
        )

    def ended(self, finish: Finish) -> Generation:
        """Return all that was sampled."""
        return Generation(self.token_ids, self.logprobs, finish, self.versions, self.cached)
