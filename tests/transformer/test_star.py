"""The Star-Transformer as its paper updates it, against loops with copied weights."""

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from tinyattn.transformer import StarTransformer

from .. import reference
from ..close import assert_same
from .tiny import randn, scrambled


def star(n_layers=2, seed=0):
    return scrambled(StarTransformer(8, n_heads=2, n_layers=n_layers), seed)


def by_loops(it, e, n_layers):
    """Algorithm 1 of the paper: all tokens, one after the other, then the relay."""
    weights, n = reference.as_numpy(it.state_dict()), len(e)
    h, s = e.copy(), e.mean(axis=0, keepdims=True)
    for layer in range(n_layers):
        tokens = []
        for i in range(n):
            read = np.stack([h[i - 1], h[i], h[(i + 1) % n], e[i], s[0]])
            update = reference.multi_head(h[i : i + 1], read, weights, f"around.{layer}", 2)
            tokens.append(np.maximum(update, 0)[0])
        h = reference.layer_norm(np.stack(tokens), weights, f"norm_tokens.{layer}")
        update = reference.multi_head(s, np.concatenate([s, h]), weights, f"relay.{layer}", 2)
        s = reference.layer_norm(np.maximum(update, 0), weights, f"norm_relay.{layer}")
    return h, s


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_it_is_the_papers_algorithm(n, n_layers):
    it, e = star(n_layers), randn(2, n, 8)
    h, s = it(e)
    for b in range(2):
        expected = by_loops(it, e[b].numpy(), n_layers)
        np.testing.assert_allclose(h[b].detach(), expected[0], atol=1e-10)
        np.testing.assert_allclose(s[b].detach(), expected[1], atol=1e-10)


@pytest.mark.parametrize("shift", [1, 3, 5])
def test_turning_the_ring_turns_the_tokens_and_leaves_the_relay(shift):
    it, e = star(3), randn(2, 7, 8)
    h, s = it(e)
    turned, same = it(e.roll(shift, dims=1))
    assert_same(turned, h.roll(shift, dims=1), atol=1e-9)
    assert_same(same, s, atol=1e-9)


@pytest.mark.parametrize(("n_layers", "tells_apart"), [(1, False), (2, True)])
def test_a_token_tells_distant_tokens_apart_after_two_layers_and_not_after_one(
    n_layers, tells_apart
):
    # The relay starts as the mean of all tokens, so that one layer carries a little of everyone.
    # But all tokens outside of a token's ring have one and the same influence then.
    n, it = 7, star(n_layers)
    blocks = jacobian(lambda e: it(e)[0], randn(1, n, 8))[0, :, :, 0]  # (n, 8, n, 8)
    assert (blocks.abs().sum((1, 3)) > 0).all()
    for i in range(n):
        one, other, ring = ((i + step) % n for step in (3, 4, 1))
        difference = (blocks[i, :, one] - blocks[i, :, other]).abs().max()
        assert bool(difference > 1e-9) is tells_apart
        assert (blocks[i, :, one] - blocks[i, :, ring]).abs().max() > 1e-9


def test_the_relay_reads_the_tokens_after_their_update():
    it, e = star(1), randn(1, 5, 8)
    h, s = it(e)
    start = e.mean(dim=1, keepdim=True)
    update = it.relay[0](start, torch.cat([start, h], dim=1))
    assert_same(s, it.norm_relay[0](torch.relu(update)))


def test_padding_closes_the_ring_around_the_real_tokens():
    it, e = star(2), randn(3, 7, 8)
    lengths = [7, 4, 1]
    real = torch.arange(7) < torch.tensor(lengths)[:, None]
    h, s = it(torch.where(real[..., None], e, 1e3), key_padding=real)
    for b, length in enumerate(lengths):
        alone, relay = it(e[b : b + 1, :length])
        assert_same(h[b : b + 1, :length], alone, atol=1e-9)
        assert_same(s[b : b + 1], relay, atol=1e-9)


def test_what_stands_on_padding_gets_no_gradient_from_real_tokens():
    it, e = star(2), randn(1, 6, 8).requires_grad_()
    real = (torch.arange(6) < 4)[None]
    h, s = it(e, key_padding=real)
    (h[:, :4].pow(2).sum() + s.pow(2).sum()).backward()
    assert torch.equal(e.grad.abs().sum(-1) > 0, real)


def test_sequences_do_not_see_each_other():
    it, e = star(2), randn(3, 5, 8)
    h, s = it(e)
    for b in range(3):
        alone, relay = it(e[b : b + 1])
        assert_same(alone, h[b : b + 1])
        assert_same(relay, s[b : b + 1])


def test_the_parameters_are_two_attentions_and_two_norms_a_layer_whatever_n_is():
    for n_layers in (1, 3):
        count = sum(p.numel() for p in StarTransformer(8, 2, n_layers).parameters())
        assert count == n_layers * (2 * (4 * 8**2 + 4 * 8) + 2 * 2 * 8)


def test_gradients_pass_gradcheck():
    it = scrambled(StarTransformer(4, n_heads=2, n_layers=2))
    assert torch.autograd.gradcheck(lambda e: it(e), randn(1, 4, 4).requires_grad_())


E = torch.zeros(2, 5, 8)
REAL = torch.ones(2, 5, dtype=torch.bool)
LATE = torch.tensor([[True] * 5, [False, True, True, True, True]])
NONE = torch.tensor([[True] * 5, [False] * 5])
REFUSED = {
    "no token": ((E[:, :0],), {}, ValueError, r"at least one token, got \(2, 0, 8\)"),
    "no batch": ((E[0],), {}, ValueError, r"e must be \(b, n, d_model=8\), got \(5, 8\)"),
    "another width": ((E[..., :6],), {}, ValueError, r"d_model=8\), got"),
    "a real token behind padding": ((E,), {"key_padding": LATE}, ValueError, "True for the first tokens"),
    "padding alone": ((E,), {"key_padding": NONE}, ValueError, "first tokens of a sequence, one or more"),
    "padding of another length": (
        (E,), {"key_padding": REAL[:, :4]}, ValueError, r"one entry for each token: \(b, n\) = \(2, 5\), got \(2, 4\)",
    ),
    "one padding for two": ((E,), {"key_padding": REAL[:1]}, ValueError, r"= \(2, 5\), got \(1, 5\)"),
    "integer padding": ((E,), {"key_padding": REAL.long()}, TypeError, "bool .* got torch.int64"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_star_is_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        StarTransformer(8, 2, 1)(*args, **options)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("args", "error", "sentence"),
    [
        ((8, 2, 0), ValueError, "n_layers must be 1 or more, got 0"),
        ((8, 2, 1.5), TypeError, r"n_layers must be a whole number, got 1\.5"),
        ((8, 3, 1), ValueError, "d_model must be divisible by n_heads"),
    ],
)
def test_a_star_that_cannot_be_is_refused(args, error, sentence):
    with pytest.raises(error, match=sentence):
        StarTransformer(*args)


def test_the_mean_of_many_embeddings_does_not_overflow_in_half_precision():
    it = StarTransformer(8, n_heads=2, n_layers=1).half()
    h, s = it(torch.full((1, 4096, 8), 20.0).half())
    assert bool(h.isfinite().all())
    assert bool(s.isfinite().all())
    assert h.dtype == s.dtype == torch.float16


def test_embeddings_of_another_width_are_refused_as_they_came():
    with pytest.raises(ValueError, match=r"e must be \(b, n, d_model=8\), got \(1, 5, 4\)"):
        star(1)(randn(1, 5, 4))
