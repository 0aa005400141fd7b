"""An engine without vLLM: a Hugging Face model in its own precision, which takes weights from a file."""

from concurrent.futures import Future

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from tests.fakes.rollout_engines import Facts

HEAD = "lm_head.weight"


class ModelEngine:
    """A handle of an engine. ``fault`` is what goes wrong with each tensor that is loaded, if anything."""

    def __init__(self, folder, dtype=torch.bfloat16, name="engine-0"):
        self.name = name
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        if self.model.config.tie_word_embeddings:  # a copy, as vLLM keeps one where it packs weights
            head = self.model.get_input_embeddings().weight.detach().clone()
            self.model.lm_head.weight = torch.nn.Parameter(head)
        self.version = 0
        self.fault = lambda name, now, given: given
        self.mislabels = 0
        """Added to the version that it says it has."""

    def facts(self):
        return done(Facts(self.version + self.mislabels, "0"))

    def pause(self, mode):
        return done(None)

    resume = begin = lambda self: done(None)

    def update(self, info):
        weights = dict(self.model.named_parameters())
        with safe_open(info["path"], framework="pt") as file, torch.no_grad():
            for name in file.keys():  # noqa: SIM118 - the file is no mapping
                now = weights[name]
                now.copy_(self.fault(name, now.clone(), file.get_tensor(name)))
        return done(None)

    def finish(self, version):
        self.version = version
        return done(None)

    def rate(self, sequences):
        return done(tuple(tuple(logprobs(self.model, sequence)) for sequence in sequences))

    def draw(self, sequences, tokens):
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
