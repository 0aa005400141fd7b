"""A learner, as a weight sync sees it: a Hugging Face model whose weights can be moved."""

import numpy as np
import torch
from transformers import AutoModelForCausalLM


class ModelOwner:
    """Holds weights and says log-probabilities."""

    def __init__(self, folder):
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def move(self, by, seed=0):
        """Other weights, the same ones for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.add_(by * torch.randn(weight.shape, generator=generator))

    def learn(self, sequences, rate):
        """One update as Adam's first: every weight by ``rate``, in the direction that makes every other
        sequence more likely and the rest less."""
        self.model.zero_grad()
        for index, sequence in enumerate(sequences):
            ids = torch.tensor([sequence])
            loss = self.model(ids, labels=ids).loss
            (loss if index % 2 else -loss).backward()
        with torch.no_grad():
            for weight in self.model.parameters():
                assert weight.grad is not None
                weight.sub_(rate * weight.grad.sign())
        self.model.zero_grad()

    def named_weights(self):
        yield from self.model.named_parameters()

    def probe(self, sequences):
        return [self.logprobs(sequence) for sequence in sequences]

    def adapter(self, folder):
        raise NotImplementedError

    def logprobs(self, token_ids, temperature=1.0):
        """Of each token given those before it; 0 for the first."""
        with torch.no_grad():
            logits = self.model(torch.tensor([token_ids], device=self.model.device)).logits[0].float().cpu()
        found = (
            (logits / temperature).log_softmax(-1)[:-1].gather(-1, torch.tensor(token_ids[1:])[:, None])[:, 0]
        )
        return np.concatenate([[0.0], found.numpy()])
