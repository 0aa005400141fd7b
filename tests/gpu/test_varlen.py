from typing import Any

import pytest
import torch
from torch import nn

from trainer.update.attention import sequence_attention
from trainer.update.varlen import takes_varlen, varlen_attention

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


@pytest.mark.parametrize("window", [None, 16])
def test_varlen_attention_is_attention_sequence_by_sequence(window):
    lengths = (70, 3, 129)
    query, key, value = (
        torch.randn(1, heads, sum(lengths), 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for heads in (8, 2, 2)
    )
    if not takes_varlen(query, value):
        pytest.skip("needs a GPU with flash attention")
    module: Any = nn.Module()
    module.num_key_value_groups = 4
    expected = torch.cat(
        [
            sequence_attention(module, q, k, v, None, sliding_window=window)[0]
            for q, k, v in zip(
                *(torch.split(each, list(lengths), dim=2) for each in (query, key, value)), strict=True
            )
        ],
        dim=1,
    )
    got = varlen_attention(query, key, value, lengths, None, window)
    torch.testing.assert_close(got, expected, atol=2e-2, rtol=2e-2)
    one, other = (
        torch.autograd.grad(each.float().square().sum(), (query, key, value)) for each in (got, expected)
    )
    for gradient, wanted in zip(one, other, strict=True):
        torch.testing.assert_close(gradient, wanted, atol=5e-2, rtol=5e-2)
