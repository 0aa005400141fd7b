"""Prepare the batches of a stage: read its records, tokenize them, and leave out what does not fit."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import (
    ProcessRewardModelStageConfig,
    RewardModelStageConfig,
    ScoringStageConfig,
    SftStageConfig,
)
from trainer.errors import ConfigError, DataError
from trainer.recorded.bad_rows import BadRows
from trainer.recorded.types import LabelledCompletion, Preference, RecordedEpisode
from trainer.sft.row_batches import RowBatches

from .data_note import DataDigest, check_same_data
from .records import stage_records
from .scored_rows import ScoreBatches, score_batches
from .step_rows import step_batches
from .tokens import tokenize_conversation

if TYPE_CHECKING:
    from sandbox_contract.messages import Message
    from trainer.chat import ChatTokenizer
    from trainer.config import OfflineStageConfig
    from trainer.recorded.types import Record, RowOrigin
    from trainer.types import Sample

    from .tokens import TokenizedConversation


logger = logging.getLogger(__name__)


async def prepare_stage(
    stage: OfflineStageConfig, folder: Path, seed: int, context_tokens: int, chat: ChatTokenizer
) -> RowBatches | ScoreBatches:
    """Return the batches of a stage on recorded data, read and tokenized in a thread.

    Raises DataError, also for data that changed since the run in ``folder`` began.
    """

    def batches() -> RowBatches | ScoreBatches:
        records = stage_records(stage)
        check_same_data(folder, {stage.name: DataDigest.of(stage, records)})
        return stage_batches(stage, records, seed, context_tokens, chat)

    return await asyncio.to_thread(batches)


def stage_batches(
    stage: OfflineStageConfig,
    records: Sequence[Record],
    seed: int,
    context_tokens: int,
    chat: ChatTokenizer,
) -> RowBatches | ScoreBatches:
    """Return the batches of a stage.

    Args:
        stage: its settings.
        records: what it trains on.
        seed: of the order of rows.
        context_tokens: greatest length of a row.
        chat: the tokenizer of the run's model.

    Raises DataError for rows that the chat template rejects, for rows that do not fit where they are refused,
    and where no row is left.
    """
    if isinstance(stage, ScoringStageConfig):
        context_tokens -= 1  # of the token that a score is read before
    fitting = _Fitting(stage.overlong, context_tokens, marks=not isinstance(stage, ScoringStageConfig))
    rows = [row for group, record in enumerate(records) if (row := _row(record, group, chat, fitting))]
    fitting.bad.raise_any(len(records))
    if not rows:
        raise DataError(
            f"stage {stage.name}: none of {len(records)} rows fits the context of {context_tokens} tokens"
        )
    if stage.epochs is not None and fitting.counts["dropped"]:
        logger.warning(
            "stage %s: %d of %d rows are left out, which its epochs count: the passes over the others are "
            "more than epochs=%g, as data/epoch shows; set steps, or remove those rows",
            stage.name,
            fitting.counts["dropped"],
            len(records),
            stage.epochs,
        )
    if any(isinstance(record, LabelledCompletion) for record in records):
        rows = _with_mismatched(rows, records, chat, context_tokens)
    if isinstance(stage, SftStageConfig):
        rows = _with_mean_weight(rows)
    metrics = {
        "data/rows": float(len(rows)),
        "data/dropped": float(fitting.counts["dropped"]),
        "data/truncated": float(fitting.counts["truncated"]),
    }
    if isinstance(stage, RewardModelStageConfig):
        pairs = [each for each in records if isinstance(each, Preference)]
        return score_batches(stage, rows, pairs, seed, metrics)
    if isinstance(stage, ProcessRewardModelStageConfig):
        episodes = [each for each in records if isinstance(each, RecordedEpisode)]
        return step_batches(stage, rows, episodes, seed, metrics)
    return RowBatches(rows, stage.batch, seed, metrics, stage.objective, "data/epoch")


def _with_mean_weight(rows: Sequence[list[Sample]]) -> list[list[Sample]]:
    """Return the rows with weights scaled to a mean of 1, so that the learning rate means the same with any
    weights. Those of a file may have another mean, and those of a selection have where rows are left out.
    """
    mean = math.fsum(row[0].weight for row in rows) / len(rows)
    return [[replace(sample, weight=sample.weight / mean) for sample in row] for row in rows]


@dataclass(slots=True)
class _Fitting:
    """Fits conversations into the context, as configured."""

    overlong: str
    context_tokens: int
    marks: bool
    """Whether turns may be marked as not to be trained on; a model that scores reads them all."""
    bad: BadRows = field(default_factory=BadRows)
    counts: Counter[str] = field(default_factory=Counter)

    def fit(
        self, origin: RowOrigin, tokenize: Callable[[], Sequence[TokenizedConversation]]
    ) -> Sequence[TokenizedConversation] | None:
        """Return the conversations of a row as they are trained on; None for a row that is left out."""
        try:
            given = tokenize()
        except ConfigError as error:
            self.bad.add(origin, str(error))
            return None
        longest = max(len(each) for each in given)
        if longest <= self.context_tokens:
            return given
        if self.overlong == "refuse":
            self.bad.add(
                origin,
                f"has {longest} tokens, and the context {self.context_tokens}; set overlong=drop or "
                "truncate, or a longer context",
            )
            return None
        cut = [each.cut(self.context_tokens) for each in given]
        if self.overlong == "truncate" and all(each.has_loss for each in cut) and _part(cut):
            self.counts["truncated"] += 1
            return cut
        self.counts["dropped"] += 1
        return None


def _part(cut: Sequence[TokenizedConversation]) -> bool:
    """Return whether the sides of a pair still differ: neither was cut before the place where they part."""
    shortest = min(len(each) for each in cut)
    return len(cut) == 1 or len({each.token_ids[:shortest] for each in cut}) > 1


def _row(record: Record, group: int, chat: ChatTokenizer, fitting: _Fitting) -> list[Sample]:
    """Return the samples of a record; none if it is left out."""
    fitted = fitting.fit(record.origin, lambda: _tokenized(record, chat, marks=fitting.marks))
    if fitted is None:
        return []
    if not isinstance(record, RecordedEpisode) and not all(each.has_loss for each in fitted):
        fitting.bad.add(record.origin, "all turns of a completion are marked as not to be trained on")
        return []
    if isinstance(record, Preference):
        chosen, rejected = fitted
        return [
            chosen.sample(f"{group}.0", group, preferred=True),
            rejected.sample(f"{group}.1", group, preferred=False),
        ]
    (conversation,) = fitted
    if isinstance(record, LabelledCompletion):
        return [conversation.sample(f"{group}.0", group, preferred=record.desirable)]
    return [conversation.sample(f"{group}.0", group, weight=record.weight)]


def _tokenized(record: Record, chat: ChatTokenizer, *, marks: bool) -> tuple[TokenizedConversation, ...]:
    """Return the conversations of a record; without ``marks``, all turns count as trained on."""
    sides: tuple[tuple[Sequence[Message], frozenset[int]], ...]
    if isinstance(record, Preference):
        sides = ((record.chosen, record.chosen_skipped), (record.rejected, record.rejected_skipped))
    elif isinstance(record, RecordedEpisode):
        sides = ((record.completion, record.skipped_of_completion),)
    else:
        sides = ((record.completion, record.skipped),)
    return tuple(
        tokenize_conversation(
            chat, record.prompt, completion, record.tools, skipped if marks else frozenset()
        )
        for completion, skipped in sides
    )


def _with_mismatched(
    rows: Sequence[list[Sample]], records: Sequence[Record], chat: ChatTokenizer, context_tokens: int
) -> list[list[Sample]]:
    """Add to each labelled completion its prompt with the completion of another one, which estimates the KL.

    It has weight 0: it is scored and not trained on. A row whose prompt all others share has none.
    """
    labelled = [each for each in records if isinstance(each, LabelledCompletion)]
    others = _next_of_other_prompt(labelled)
    found = []
    for (sample,) in rows:
        mine = labelled[sample.group]
        row = [sample]
        if (place := others[sample.group]) is not None:
            other = labelled[place]
            mismatched = tokenize_conversation(chat, mine.prompt, other.completion, mine.tools, other.skipped)
            cut = mismatched.cut(context_tokens)
            if cut.has_loss:
                row.append(cut.sample(f"{sample.group}.1", sample.group, weight=0.0))
        found.append(row)
    return found


def _next_of_other_prompt(labelled: Sequence[LabelledCompletion]) -> list[int | None]:
    """Return for each completion the place of the next one, around the end, that has another prompt."""
    count = len(labelled)
    found: list[int | None] = [None] * count
    place: int | None = None
    # The first time round finds what the last ones find around the end.
    for mine in [*reversed(range(count))] * 2:
        following = (mine + 1) % count
        if labelled[mine].prompt != labelled[following].prompt:
            place = following
        found[mine] = place
    return found
