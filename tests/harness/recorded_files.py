"""Preferences and labelled completions of files."""

from trainer.recorded.reading import only_kind, read_records
from trainer.recorded.types import LabelledCompletion, Preference


def read_preferences(files, progress=None):
    return only_kind(Preference, read_records(files, progress))


def read_completions(files):
    return only_kind(LabelledCompletion, read_records(files))
