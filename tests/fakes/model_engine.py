"""An engine without vLLM: a Hugging Face model in its own precision, which takes weights from a file."""

from concurrent.futures import Future

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.fakes.rollout_engines import Status
from trainer.weight_sync.receipt import Receipt, TensorRecorder, encode_receipt

HEAD = "lm_head.weight"


class ModelEngine:
    """A handle of an engine. ``way`` is what happens to tensors before they arrive, ``fault`` what goes wrong
    with each that is loaded, and ``skips`` those that the loader never looks at."""

    def __init__(self, folder, dtype=torch.bfloat16, name="engine-0"):
        self.name = name
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        if self.model.config.tie_word_embeddings:  # a copy, as vLLM keeps one where it packs weights
            head = self.model.get_input_embeddings().weight.detach().clone()
            self.model.lm_head.weight = torch.nn.Parameter(head)
        self.version = 0
        self.way = lambda tensors: tensors
        self.fault = lambda name, now, given: given
        self.skips = ()
        self.forgets_adapters = False
        self.mislabels = 0
        """Added to the version that it says it has."""

    def get_status(self):
        return done(Status(self.version + self.mislabels, "0"))

    def pause_generation(self, mode):
        return done(None)

    resume_generation = lambda self: done(None)  # noqa: E731 - nothing to do

    def begin_update(self, contents):
        self.recorder = TensorRecorder(contents)
        return done(None)

    def update_weights(self, info):
        weights = dict(self.model.named_parameters())
        filled = set()
        with torch.no_grad():
            for name, given in self.recorder.passing(self.way(load_file(info["path"]).items())):
                if name in weights and name not in self.skips:
                    now = weights[name]
                    now.copy_(self.fault(name, now.clone(), given))
                    filled.add(name)
        self.receipt = Receipt(self.recorder.found(), tuple(sorted(weights.keys() - filled)))
        return done(None)

    def load_adapter(self, version, folder):
        """Noted, and not sampled with."""
        recorder = TensorRecorder(contents=True)
        dict(recorder.passing(self.way(load_file(f"{folder}/adapter_model.safetensors").items())))
        self.receipt = Receipt(recorder.found(), ("the adapter",) if self.forgets_adapters else ())
        self.version = version
        return done(None)

    def get_receipts(self):
        return done((self.version + self.mislabels, (encode_receipt(self.receipt),)))

    def finish_update(self, version):
        self.version = version
        return done(None)

    def score_sequences(self, sequences):
        return done(tuple(tuple(logprobs(self.model, sequence)) for sequence in sequences))

    def sample_text(self, sequences, tokens):
        """Sampled from the model, for as long as it has text to give."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            ids = torch.ones(sequences, 1, dtype=torch.long)
            drawn = self.model.generate(
                ids, do_sample=True, top_k=0, min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0
            )
        return done(tuple(tuple(row) for row in drawn.tolist()))


def done(value):
    future = Future()
    future.set_result(value)
    return future


@torch.no_grad()
def logprobs(model, token_ids):
    """Of each token given those before it; 0 for the first."""
    logits = model(torch.tensor([token_ids])).logits[0].float()
    found = logits.log_softmax(-1)[:-1].gather(-1, torch.tensor(token_ids[1:])[:, None])[:, 0]
    return [0.0, *found.tolist()]
