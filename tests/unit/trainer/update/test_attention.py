from itertools import pairwise

import pytest
import torch
from torch import nn

from tests.harness.architectures import tiny_config
from trainer.update.attention import sequence_attention
from trainer.update.varlen import takes_varlen, varlen_attention

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def projections(tokens, rows=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(rows, heads, tokens, SIZE, generator=generator) for heads in (HEADS, KEY_HEADS, KEY_HEADS)
    )


def layer(**facts):
    module = nn.Module()
    module.num_key_value_groups = HEADS // KEY_HEADS
    for name, fact in facts.items():
        setattr(module, name, fact)
    return module


def plain(query, key, value, window=None, softcap=None, sinks=None):
    """The definition, query by query."""
    outputs = []
    for at in range(query.shape[2]):
        first = 0 if window is None else max(0, at - window + 1)
        of_heads = []
        for head in range(HEADS):
            k, v = (each[0, head // (HEADS // KEY_HEADS), first : at + 1] for each in (key, value))
            scores = k @ query[0, head, at] / SIZE**0.5
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            weights = scores.exp()
            total = weights.sum() + (0 if sinks is None else sinks[head].exp())
            of_heads.append((weights / total) @ v)
        outputs.append(torch.stack(of_heads))
    return torch.stack(outputs)[None]


KINDS = {
    "full": {},
    "window": {"sliding_window": 3},
    "a window that is longer than the sequence": {"sliding_window": 50},
    "softcap": {"softcap": 0.7},
    "sinks": {"s_aux": torch.tensor([0.5, -1.0, 2.0, 0.0])},
    "all": {"sliding_window": 3, "softcap": 0.7, "s_aux": torch.tensor([0.5, -1.0, 2.0, 0.0])},
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_sequence_attends_to_itself_as_it_is_defined(kind):
    query, key, value = projections(11)
    said = KINDS[kind]
    names = {"sliding_window": "window", "softcap": "softcap", "s_aux": "sinks"}
    got, _ = sequence_attention(layer(), query, key, value, None, sequence_lengths=(7, 4), **said)
    expected = torch.cat(
        [
            plain(
                *(each[:, :, part] for each in (query, key, value)), **{names[k]: v for k, v in said.items()}
            )
            for part in (slice(0, 7), slice(7, 11))
        ],
        dim=1,
    )
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_without_lengths_each_row_is_a_sequence():
    query, key, value = projections(6, rows=2)
    got, _ = sequence_attention(layer(), query, key, value, None, softcap=0.7)
    for row in range(2):
        part = [each[row : row + 1] for each in (query, key, value)]
        torch.testing.assert_close(got[row : row + 1], plain(*part, softcap=0.7), atol=1e-6, rtol=1e-5)


def test_a_layer_that_keeps_its_window_to_itself_is_an_error():
    config = tiny_config("gemma-3")
    query, key, value = projections(6)
    sequence_attention(layer(config=config, layer_idx=0), query, key, value, None)
    with pytest.raises(ValueError, match="sliding window"):
        sequence_attention(layer(config=config, layer_idx=1), query, key, value, None)


def flash(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa):
    """Compute attention as torch's documentation describes ``varlen_attn``, in its plainest form."""
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert window_size[1] == 0
    ends = cu_seq_q.tolist()
    assert max_q == max_k == max(end - start for start, end in pairwise(ends))
    outputs = []
    for start, end in pairwise(ends):
        q, k, v = (each[start:end].transpose(0, 1) for each in (query, key, value))
        seen = torch.ones(end - start, end - start, dtype=torch.bool).tril()
        if window_size[0] >= 0:
            seen = seen.triu(-window_size[0])
        attended = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, scale=scale, enable_gqa=enable_gqa
        )
        outputs.append(attended.transpose(0, 1))
    return torch.cat(outputs)


@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_the_varlen_kernel_is_asked_for_what_goes_sequence_by_sequence_elsewhere(window):
    query, key, value = projections(12)
    lengths = (5, 1, 6)
    expected, _ = sequence_attention(
        layer(), query, key, value, None, sequence_lengths=lengths, sliding_window=window, scaling=0.3
    )
    got = varlen_attention(query, key, value, lengths, 0.3, window, kernel=flash)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_the_varlen_kernel_is_for_gpus():
    query, _, value = projections(3)
    assert not takes_varlen(query.bfloat16(), value.bfloat16())
