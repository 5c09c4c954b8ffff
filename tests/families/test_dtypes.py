"""Tensors of several dtypes are refused by name, before a product meets them."""

import pytest
import torch

from tinyattn.families import LinearState, compressed_attention

from .heads_of import heads

pytestmark = pytest.mark.usefixtures("refusals")


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_mixtures_of_another_dtype_are_refused(dtype, wrong):
    mixtures = [torch.zeros(3, 9, dtype=torch.float64) for _ in range(2)]
    mixtures[wrong] = mixtures[wrong].to(dtype)
    with pytest.raises(TypeError, match="q, mix_keys and mix_values must share one float dtype"):
        compressed_attention(*heads(), *mixtures)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float64, torch.float32, torch.float64),
        (torch.float64, torch.float64, torch.float32),
        (torch.float32, torch.float32, torch.float32),
        (torch.int64, torch.int64, torch.int64),
    ],
)
def test_a_state_refuses_tokens_of_another_dtype_and_stays_what_it_was(dtypes):
    q, k, v = (x.detach()[:, :, 0] for x in heads())
    state = LinearState()
    state.step(q, k, v)
    before = state.s, state.u
    with pytest.raises(TypeError, match=r"share one float dtype|is kept in torch.float64"):
        state.step(*(x.to(dtype) for x, dtype in zip((q, k, v), dtypes, strict=True)))
    assert (state.s, state.u) == before  # the same tensors
    if dtypes[0] == torch.int64:
        with pytest.raises(TypeError, match="share one float dtype"):
            LinearState().step(q.long(), k.long(), v.long())


def test_a_state_of_half_precision_tokens_is_kept_in_float32():
    q, k, v = (x.detach()[:, :, 0].half() for x in heads())
    state = LinearState()
    assert state.step(q, k, v).dtype == torch.float16
    assert state.step(q, k, v).dtype == torch.float16
    assert state.s.dtype == torch.float32
