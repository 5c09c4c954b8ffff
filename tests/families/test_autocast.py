"""Under autocast, where products take several dtypes, every layer and function answers and learns."""

from dataclasses import replace

import pytest
import torch

from tinyattn import attention, attention_weights, sparse_attention
from tinyattn import families as F
from tinyattn import transformer as T
from tinyattn.patterns import Random, Window

N = 9
REAL = torch.arange(N)[None] < 6
SMALL = T.TransformerConfig(
    vocab_size=11, d_model=8, n_heads=2, d_ff=12, n_layers=2, max_len=12, max_distance=2
)
POST = replace(SMALL, norm_first=False)
SCHEMES = [T.Positions, T.Sinusoidal, T.Learned, T.Shaw, T.T5Bias, T.RoPE]
TOKENS = torch.randint(11, (1, N), generator=torch.Generator().manual_seed(0))


def step_by_step(q, k, v):
    state = F.LinearState()
    return torch.stack([state.step(q[:, :, i], k[:, :, i], v[:, :, i]) for i in range(N)], dim=2)


def piece_by_piece(model, tokens):
    cache = model.new_cache()
    return torch.cat([model(piece, cache=cache) for piece in tokens.split(2, dim=1)], dim=1)


MIX = 0.3 * torch.randn(2, 3, N, generator=torch.Generator().manual_seed(1))
EYES = torch.eye(2) + 0.1, torch.eye(2) - 0.1
OF_HEADS = {
    "attention": attention,
    "its weights": lambda q, k, v: attention_weights(q, k) + 0 * v.sum(),
    "a pattern": lambda q, k, v: sparse_attention(q, k, v, Window(1)),
    "compressed": lambda q, k, v: F.compressed_attention(q, k, v, *MIX),
    "groups": lambda q, k, v: F.grouped_attention(q, k[:, :1], v[:, :1]),
    "talking heads": lambda q, k, v: F.talking_heads_attention(q, k, v, *EYES),
    "linear": F.linear_attention,
    "linear, causal": lambda q, k, v: F.linear_attention(q, k, v, causal=True, chunk_size=4),
    "linear, weights": lambda q, k, v: F.linear_attention_weights(q, k, key_padding=REAL) @ v,
    "a recurrence": step_by_step,
    "landmarks": lambda q, k, v: F.nystrom_attention(q, k, v, n_landmarks=3, key_padding=REAL),
    "landmarks by products": lambda q, k, v: F.nystrom_attention(q, k, v, n_landmarks=3, n_iters=8),
    "a prior": lambda q, k, v: F.prior_attention(v, F.gaussian_prior(N, spread=1.0)),
}
LAYERS = {
    "compressed": (lambda: F.Linformer(8, 2, n=12, n_memory=3), {"key_padding": REAL}),
    "groups": (lambda: F.GroupedQueryAttention(8, 2, 1), {"key_padding": REAL}),
    "convolution": (lambda: F.Convolution(8, 3), {}),
    "recurrence": (lambda: F.Recurrence(8), {}),
    "fully connected": (lambda: F.FullyConnected(N, 8), {}),
    "heads": (lambda: T.MultiHeadAttention(8, 2), {"key_padding": REAL}),
    "heads with a pattern": (lambda: T.MultiHeadAttention(8, 2, pattern=Window(1)), {"key_padding": REAL}),
    "heads that read pairs": (lambda: T.MultiHeadAttention(8, 2, pattern=Random(N, 2, seed=0)), {}),
    "an encoder layer": (lambda: T.EncoderLayer(POST), {"key_padding": REAL}),
    "a decoder layer": (lambda: T.DecoderLayer(SMALL, cross_attention=False), {}),
    "longformer": (lambda: T.LongformerAttention(8, 2, w=1), {"global_positions": (0,), "key_padding": REAL}),
    "a star": (lambda: T.StarTransformer(8, 2, 2), {"key_padding": REAL}),
    "feed-forward": (lambda: T.FeedForward(8, 16, 2), {}),
}  # fmt: skip
MODELS = {
    **{f"encoder, {s.__name__}": lambda s=s: T.Encoder(replace(SMALL, positions=s)) for s in SCHEMES},
    **{f"decoder, {s.__name__}": lambda s=s: T.Decoder(replace(SMALL, positions=s)) for s in SCHEMES},
    "axial": lambda: T.AxialTransformer(SMALL, 3, 3, n_inner=1),
    "tree": lambda: T.BPTransformer(SMALL, n=N, k=2),
}  # fmt: skip
HALVES = pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])


def assert_close_under_autocast(ask, half, *inputs):
    """The same numbers and gradients as without it, as well as its dtype can tell."""
    with torch.autocast("cpu", dtype=half):
        rough = joined(ask())
    exact = joined(ask())
    torch.testing.assert_close(rough.to(exact.dtype), exact, rtol=0.1, atol=0.1)
    weighed = torch.randn(exact.shape, generator=torch.Generator().manual_seed(2))
    ours, theirs = (
        torch.cat([
            torch.zeros(x.numel()) if slope is None else slope.flatten()
            for x, slope in zip(inputs, torch.autograd.grad(loss, inputs, allow_unused=True), strict=True)
        ])
        for loss in ((rough.float() * weighed).sum(), (exact * weighed).sum())
    )  # fmt: skip
    assert float((ours - theirs).norm()) < 0.1 * float(theirs.norm())


def joined(out):
    """What a layer says, one vector; some say two things."""
    return torch.cat([x.flatten() for x in (out if isinstance(out, tuple) else (out,))])


@HALVES
@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("ask", OF_HEADS.values(), ids=OF_HEADS)
def test_functions_of_heads(ask, projected, half):
    torch.manual_seed(0)
    maps = [torch.nn.Linear(4, 4) for _ in range(3)]
    qkv = [x.requires_grad_() for x in torch.randn(3, 1, 2, N, 4)]

    def asked():
        return ask(*([f(x) for f, x in zip(maps, qkv, strict=True)] if projected else qkv))

    assert_close_under_autocast(asked, half, *qkv)


@HALVES
@pytest.mark.parametrize(("made", "options"), LAYERS.values(), ids=LAYERS)
def test_layers(made, options, half):
    torch.manual_seed(0)
    it, x = made(), torch.randn(1, N, 8)
    assert_close_under_autocast(lambda: it(x, **options), half, *it.parameters())


@HALVES
@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_models(made, half):
    torch.manual_seed(0)
    it = made()
    assert_close_under_autocast(lambda: it(TOKENS), half, *it.parameters())


@HALVES
def test_two_models_in_one_and_a_cache(half):
    torch.manual_seed(0)
    both, alone = T.Seq2Seq(SMALL), T.Decoder(SMALL)
    assert_close_under_autocast(
        lambda: both(TOKENS, TOKENS, source_padding=REAL), half, *both.parameters()
    )
    assert_close_under_autocast(lambda: piece_by_piece(alone, TOKENS), half, *alone.parameters())


def test_sums_of_a_long_sequence_stay_in_float32():
    qkv = torch.randn(3, 1, 2, 600, 4, generator=torch.Generator().manual_seed(0)).unbind()
    for name in ("linear", "landmarks by products"):
        if name == "linear":
            exact = F.linear_attention(*qkv, causal=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = F.linear_attention(*qkv, causal=True)
        else:
            exact = F.nystrom_attention(*qkv, n_landmarks=9, n_iters=8)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = F.nystrom_attention(*qkv, n_landmarks=9, n_iters=8)
        assert torch.equal(found, exact)
