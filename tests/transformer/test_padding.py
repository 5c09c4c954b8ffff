"""What stands in a padded place, NaN or an infinity too, touches nothing that is real."""

import math

import pytest
import torch
from torch import Tensor

from tinyattn.families import GroupedQueryAttention, Linformer
from tinyattn.padding import finite_padding
from tinyattn.patterns import Causal, Random, Window
from tinyattn.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    KVCache,
    LongformerAttention,
    MultiHeadAttention,
    Shaw,
    StarTransformer,
)

from ..close import assert_same
from .tiny import SCHEMES, randn, scrambled, small, some_tokens

B, N = 2, 40
REAL = torch.arange(N) < torch.tensor([[N - 7], [5]])


def cross(x: Tensor, key_padding: Tensor, it: MultiHeadAttention) -> Tensor:
    return it(randn(B, 3, 8, seed=5).to(x), x, key_padding=key_padding)


def reads_a_memory(x: Tensor, key_padding: Tensor, it: DecoderLayer) -> Tensor:
    return it(randn(B, 3, 8, seed=5).to(x), x, memory_padding=key_padding)


LAYERS = {
    "dense": lambda: MultiHeadAttention(8, 2),
    "dense, weights returned": lambda: MultiHeadAttention(8, 2),
    "blocks": lambda: MultiHeadAttention(8, 2, pattern=Window(2)),
    "causal": lambda: MultiHeadAttention(8, 2, pattern=Causal()),
    "pairs one by one": lambda: MultiHeadAttention(8, 2, pattern=Random(N, 2, seed=0)),
    "a pattern a head": lambda: MultiHeadAttention(8, 2, pattern=(Window(1), Window(3))),
    "vectors for distances": lambda: MultiHeadAttention(8, 2, positions=Shaw(4, 3)),
    "encoder layer, pre-norm": lambda: EncoderLayer(small()),
    "encoder layer, post-norm": lambda: EncoderLayer(small(norm_first=False)),
    "encoder": lambda: Encoder(small()),
    "encoder with a pattern": lambda: Encoder(small(), pattern=Window(2)),
    "longformer": lambda: LongformerAttention(8, 2, w=2),
    "star": lambda: StarTransformer(8, n_heads=2, n_layers=2),
    "linformer": lambda: Linformer(8, n_heads=2, n=N, n_memory=3),
    "grouped queries": lambda: GroupedQueryAttention(8, 2, 1),
    "cross-attention": lambda: MultiHeadAttention(8, 2),
    "decoder layer": lambda: DecoderLayer(small()),
}


def run(name: str, it: torch.nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What is real in the output, and the gradients of x and of every parameter."""
    x = x.clone().requires_grad_()
    if name in ("cross-attention", "decoder layer"):
        out = (cross if name == "cross-attention" else reads_a_memory)(x, REAL, it).flatten(0, 1)
    elif name == "longformer":
        out = it(x, global_positions=(0, 3), key_padding=REAL)[REAL]
    elif name == "star":
        h, s = it(x, key_padding=REAL)
        out = torch.cat([h[REAL], s[:, 0]])
    elif name == "dense, weights returned":
        out, weights = it(x, key_padding=REAL, return_weights=True)
        out = torch.cat([out[REAL], weights.transpose(1, 2)[REAL].flatten(1)], dim=1)
    else:
        out = it(x, key_padding=REAL)[REAL]
    loss = (out * randn(*out.shape, seed=9).to(out)).sum()
    inputs = [x, *it.parameters()]
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return out, [
        torch.zeros_like(a) if g is None else g for a, g in zip(inputs, found, strict=True)
    ]


@pytest.mark.parametrize("filling", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", LAYERS)
def test_what_stands_in_a_padded_place_reaches_no_real_token_and_no_gradient(name, filling):
    it, x = scrambled(LAYERS[name]()), randn(B, N, 8)
    out, gradients = run(name, it, x)
    other_out, other_gradients = run(name, it, x.masked_fill(~REAL[..., None], filling))
    assert torch.equal(other_out, out)
    for ours, theirs in zip(other_gradients, gradients, strict=True):
        assert torch.equal(ours, theirs)
    assert bool((gradients[0][~REAL] == 0).all())
    assert bool((gradients[0][REAL] != 0).any())


# What overflows only when it is projected, multiplied by itself or squared. A token's own query
# and the sum around its layer do so as well as its key, and reach every weight on the way back.
@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
def test_large_padding_reaches_no_real_token_and_no_gradient(name, dtype, power):
    it, x = scrambled(LAYERS[name]()).to(dtype), randn(B, N, 8).to(dtype)
    size = max(1e3, torch.finfo(dtype).max ** power / 2)
    filled = x.masked_fill(~REAL[..., None], size)
    filled[..., ::2] = filled[..., ::2].where(REAL[..., None], -size)
    out, gradients = run(name, it, x.masked_fill(~REAL[..., None], 0.0))
    other_out, other_gradients = run(name, it, filled)
    assert bool(out.isfinite().all())
    assert torch.equal(other_out, out)
    for ours, theirs in zip(other_gradients, gradients, strict=True):
        assert bool(theirs.isfinite().all())
        assert torch.equal(ours, theirs)


# Small enough to stay, and infinite once it is projected: a weight of zero would not silence it.
@pytest.mark.parametrize(
    "name", ["dense", "blocks", "causal", "a pattern a head", "cross-attention", "longformer",
             "grouped queries", "linformer"],
)  # fmt: skip
def test_values_that_become_infinite_are_read_by_nobody(name):
    it, x = scrambled(LAYERS[name]()), randn(B, N, 8)
    with torch.no_grad():
        for part, weight in it.named_parameters():
            if "value" in part and part.endswith("weight"):
                weight *= 1e240
    huge = x.masked_fill(~REAL[..., None], 1e76)
    huge[..., ::2] = huge[..., ::2].where(REAL[..., None], 0.0)
    value = it.local.value if name == "longformer" else it.value
    assert not bool(value(finite_padding(huge, REAL)).isfinite().all())
    out, gradients = run(name, it, x.masked_fill(~REAL[..., None], 0.0))
    other_out, other_gradients = run(name, it, huge)
    assert torch.equal(other_out, out)
    for ours, theirs in zip(other_gradients, gradients, strict=True):
        assert bool(ours.isfinite().all())
        assert torch.equal(ours, theirs)


def test_padding_of_ordinary_size_is_left_as_it_is():
    x, real = randn(2, 3, 4), torch.tensor([[True, False, False], [False] * 3])
    assert torch.equal(finite_padding(x, real), x)
    for dtype, largest in [(torch.float16, 15.0), (torch.float32, 4e9), (torch.float64, 1e77)]:
        sized = torch.full((1, 1, 2), largest, dtype=dtype)
        sized[..., 1] *= -1
        nobody, everybody = torch.zeros(1, 1) > 0, torch.zeros(1, 1) == 0
        assert torch.equal(finite_padding(sized, nobody), sized)
        assert not bool(finite_padding(sized * 2, nobody).any())
        assert torch.equal(finite_padding(sized * 2, everybody), sized * 2)
    assert finite_padding(x, None) is x
    x[0, 0, 0] = x[0, 1, 1] = math.nan
    found = finite_padding(x, real)
    assert found.isnan().nonzero().tolist() == [[0, 0, 0]]
    assert found[0, 1, 1] == 0.0
    x[0, 1, 1] = 0.0
    assert torch.equal(found.nan_to_num(), x.nan_to_num())


@pytest.mark.parametrize("name", ["dense", "blocks", "encoder", "star"])
def test_zeros_for_padding_leave_what_is_real_as_a_shorter_sequence_has_it(name):
    it, x = scrambled(LAYERS[name]()), randn(1, N, 8)
    real = torch.arange(N)[None] < 33
    padded, short = it(x, key_padding=real), it(x[:, :33])
    padded, short = (padded[0], short[0]) if name == "star" else (padded, short)
    assert_same(padded[:, :33], short)


@pytest.mark.parametrize("positions", SCHEMES)
def test_an_encoder_of_every_scheme_forgets_padded_vectors(positions):
    it, x = scrambled(Encoder(small(positions=positions))), randn(2, 6, 8)
    real = torch.tensor([[True] * 4 + [False] * 2, [True] + [False] * 5])
    nan = x.masked_fill(~real[..., None], math.nan)
    assert torch.equal(it(nan, key_padding=real)[real], it(x, key_padding=real)[real])


def test_without_padding_nothing_is_copied():
    it, x, seen = MultiHeadAttention(8, 2).double(), randn(1, 4, 8), []
    it.query.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    it(x)
    it(x, key_padding=torch.ones(1, 4, dtype=torch.bool))
    assert seen[0] is x
    assert torch.equal(seen[1], x)


def test_a_cache_may_hold_what_its_padding_hides():
    it, x = scrambled(MultiHeadAttention(8, 2, pattern=Causal())), randn(2, 5, 8)
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    nan = x.masked_fill(~real[..., None], math.nan)
    cache = KVCache()
    it(nan[:, :3], key_padding=real[:, :3], cache=cache)
    last = it(nan[:, 3:], key_padding=real, cache=cache)
    assert_same(last, it(x, key_padding=real)[:, 3:])


def test_a_decoder_reads_a_memory_past_what_its_padding_hides():
    it, tokens = scrambled(Decoder(small(), cross_attention=True)), some_tokens(2, 4)
    memory, real = randn(2, 3, 8), torch.tensor([[True, False, False], [True, True, True]])
    nan = memory.masked_fill(~real[..., None], math.nan)
    whole, cache = it(tokens, memory, memory_padding=real), it.new_cache()
    pieces = [it(t, nan, memory_padding=real, cache=cache) for t in tokens.split(1, dim=1)]
    assert_same(it(tokens, nan, memory_padding=real), whole)
    assert_same(torch.cat(pieces, dim=1), whole)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("padding", "error", "message"),
    [
        (torch.ones(2, 4, dtype=torch.bool), ValueError, r"\(b, n\) = \(2, 3\), got \(2, 4\)"),
        (torch.ones(3, dtype=torch.bool), ValueError, r"\(b, n\) = \(2, 3\), got \(3,\)"),
        (torch.ones(2, 3), TypeError, "must be bool .* got torch.float32"),
    ],
)
def test_a_memory_padding_that_does_not_fit_is_called_by_its_name(padding, error, message):
    it = Decoder(small(), cross_attention=True)
    with pytest.raises(error, match="memory_padding .*" + message):
        it(some_tokens(2, 4), torch.randn(2, 3, 8), memory_padding=padding)


@pytest.mark.parametrize("size", [1e3, 1e5, -1e9])
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_padding_too_large_for_autocast_reaches_no_real_token_and_no_gradient(name, half, size):
    it, x = scrambled(LAYERS[name]()).float(), randn(B, N, 8).float()
    with torch.autocast("cpu", dtype=half):
        out, gradients = run(name, it, x.masked_fill(~REAL[..., None], 0.0))
        other_out, other_gradients = run(name, it, x.masked_fill(~REAL[..., None], size))
    assert torch.equal(other_out, out)
    for ours, theirs in zip(other_gradients, gradients, strict=True):
        assert bool(ours.isfinite().all())
        assert torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2)
