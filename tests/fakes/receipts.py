"""The receipt that an engine's worker gives for weights, for engines without vLLM."""

from safetensors.torch import load_file

from trainer.weight_sync.receipt import Receipt, TensorRecorder, encode_receipt


def receipt_of_file(path):
    """Of all of it, with checksums."""
    recorder = TensorRecorder(contents=True)
    dict(recorder.passing(load_file(path).items()))
    return encode_receipt(Receipt(recorder.found()))
