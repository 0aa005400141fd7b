"""What an engine's worker says that it took, for engines without vLLM."""

from safetensors.torch import load_file

from trainer.weight_sync.fingerprint import Recorder
from trainer.weight_sync.receipt import Receipt, said


def receipt_of_file(path):
    """Of all of it, with checksums."""
    recorder = Recorder(contents=True)
    dict(recorder.passing(load_file(path).items()))
    return said(Receipt(recorder.found()))
