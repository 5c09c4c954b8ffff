"""ETC's labels against loops: which piece a pair belongs to, and how far apart it stands."""

import numpy as np
import pytest
import torch

from tinyattn import MultiHeadAttention
from tinyattn.patterns import etc
from tinyattn.transformer import Encoder, EtcPositions

from .. import reference
from ..close import assert_same
from .tiny import (
    assert_begins_with,
    assert_read_by_a_sparse_layer,
    randn,
    scrambled,
    small,
)

SENTENCES = (3, 0, 4)  # behind 3 summaries; the text has two more tokens than they have


def sentence_of(token):
    """The summary whose sentence a token of the text is in, or None."""
    start = len(SENTENCES)
    for summary, length in enumerate(SENTENCES):
        if start <= token < start + length:
            return summary
        start += length
    return None


def kind(i, j, n_global, far, with_sentences):
    """What the label of a pair depends on, as words."""
    if i < n_global and j < n_global:
        return "global to global", max(-far, min(far, j - i))
    if i >= n_global and j >= n_global:
        return "text to text", max(-far, min(far, j - i))
    summary, token = min(i, j), max(i, j)
    own = not with_sentences or sentence_of(token) == summary
    return "global to text" if i < n_global else "text to global", own


def all_labels(it, n):
    return it.label(torch.arange(n), torch.arange(n))


@pytest.mark.parametrize("far", [0, 1, 3, 50])
@pytest.mark.parametrize("with_sentences", [False, True])
def test_two_pairs_share_a_label_where_they_are_of_one_kind(far, with_sentences):
    n, n_global = 12, 3
    it = EtcPositions(4, n_global, far, SENTENCES if with_sentences else None)
    labels, kinds = all_labels(it, n), {}
    for i in range(n):
        for j in range(n):
            kinds.setdefault(kind(i, j, n_global, far, with_sentences), set()).add(
                int(labels[i, j])
            )
    assert all(len(found) == 1 for found in kinds.values())
    found = [label for labels in kinds.values() for label in labels]
    assert len(set(found)) == len(found)
    assert 0 <= min(found)
    assert max(found) < len(it.a_key) == 2 * (2 * far + 1) + 4


@pytest.mark.parametrize("sentences", [None, SENTENCES])
def test_labels_of_both_directions_are_transposes_of_each_other(sentences):
    labels = all_labels(EtcPositions(4, 3, 2, sentences), 12)
    down, up = labels[:3, 3:], labels[3:, :3]
    pairs = set(zip(down.T.flatten().tolist(), up.flatten().tolist(), strict=True))
    assert len(pairs) == (1 if sentences is None else 2)  # one label of the other direction each
    assert not set(down.flatten().tolist()) & set(up.flatten().tolist())


def test_no_global_token_leaves_shaws_distances():
    labels = all_labels(EtcPositions(4, 0, 2, ()), 6)
    for i in range(6):
        for j in range(6):
            assert labels[i, j] == max(-2, min(2, j - i)) + 2


def test_labels_of_later_queries_are_rows_of_the_whole():
    it = EtcPositions(4, 3, 2, SENTENCES)
    assert torch.equal(it.label(torch.arange(5, 9), torch.arange(12)), all_labels(it, 12)[5:9])


@pytest.mark.parametrize("sentences", [None, SENTENCES])
@pytest.mark.parametrize("scale", [None, 0.4])
def test_attention_with_the_labels_equals_the_loops(sentences, scale):
    n, far = 12, 2
    rule = etc(3, 2, sentences)
    positions = EtcPositions(4, 3, far, sentences)
    it = scrambled(MultiHeadAttention(8, 2, pattern=rule, positions=positions, scale=scale))
    x, weights = randn(2, n, 8), reference.as_numpy(it.state_dict())
    labels = all_labels(positions, n).numpy()
    for b in range(2):
        q, k, v = (
            reference.linear(x[b].numpy(), weights, name) for name in ("query", "key", "value")
        )
        heads = np.zeros((n, 8))
        for own in (slice(0, 4), slice(4, 8)):
            for i in range(n):
                moved = np.stack(
                    [k[j, own] + weights["positions.a_key"][labels[i, j]] for j in range(n)]
                )
                allowed = rule.mask(n).numpy()[i : i + 1]
                out, _ = reference.attend(q[i : i + 1, own], moved, v[:, own], allowed, scale=scale)
                heads[i, own] = out[0]
        expected = reference.linear(heads, weights, "out")
        np.testing.assert_allclose(it(x)[b].detach(), expected, atol=1e-10)


def test_a_summary_has_no_gradient_from_another_sentence():
    positions = EtcPositions(4, 3, 2, SENTENCES)
    it = scrambled(MultiHeadAttention(8, 2, pattern=etc(3, 1, SENTENCES), positions=positions))
    x = randn(1, 12, 8).requires_grad_()
    it(x)[0, 2].sum().backward()
    read = (x.grad[0].abs().sum(-1) > 0).nonzero()[:, 0].tolist()
    assert read == [0, 1, 2, 6, 7, 8, 9]


def test_each_label_that_occurs_is_learned():
    positions = EtcPositions(4, 3, 2, SENTENCES)
    it, x = scrambled(MultiHeadAttention(8, 2, positions=positions)), randn(1, 12, 8)
    it(x).pow(2).sum().backward()
    learned = positions.a_key.grad.abs().sum(-1) > 0
    assert learned.all()


def test_a_long_sequence_hears_of_its_labels_too():
    """Where a sparse pattern would pay, scores with labels are computed all the same."""
    positions = EtcPositions(4, 3, 2)
    it = scrambled(MultiHeadAttention(8, 2, pattern=etc(3, 2), positions=positions))
    x = randn(1, 300, 8)
    out, _ = it(x, return_weights=True)
    assert_same(it(x), out)


def test_a_head_may_be_one_number_wide():
    assert EtcPositions(1, 0, 0, ()).a_key.shape == (6, 1)


def test_labels_and_plain_distances_are_not_the_same():
    x = randn(1, 9, 8)
    one, other = (
        scrambled(MultiHeadAttention(8, 2, positions=EtcPositions(4, n_global, 2)))
        for n_global in (0, 3)
    )
    assert not torch.allclose(one(x), other(x))
    assert_same(one(x), scrambled(MultiHeadAttention(8, 2, positions=EtcPositions(4, 0, 2)))(x))


REFUSED = {
    "no width": ((0, 1, 1), {}, ValueError, "d_head must be 1 or more, .* got d_head=0"),
    "fewer globals than none": ((4, -1, 1), {}, ValueError, "got d_head=4, n_global=-1"),
    "a negative distance": ((4, 1, -1), {}, ValueError, "max_distance=-1"),
    "half a global": ((4, 1.5, 1), {}, TypeError, r"n_global must be a whole number, got 1\.5"),
    "a sentence too few": (
        (4, 2, 1, (3,)), {}, ValueError, "one sentence length for each of the 2 global tokens, got 1",
    ),
    "a negative sentence": ((4, 2, 1, (3, -1)), {}, ValueError, r"0 tokens or more, got \(3, -1\)"),
    "half a sentence": ((4, 1, 1, (0.5,)), {}, TypeError, r"sentences must be a whole number, got 0\.5"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("args", "options", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_labels_that_cannot_be_are_refused(args, options, error, sentence):
    with pytest.raises(error, match=sentence):
        EtcPositions(*args, **options)


@pytest.mark.usefixtures("refusals")
def test_labels_for_other_heads_are_refused():
    layer = MultiHeadAttention(8, 2, positions=EtcPositions(3, 1, 1))
    with pytest.raises(ValueError, match="d_head=3 must meet heads of that width, got 4"):
        layer(torch.zeros(1, 5, 8))


def test_a_config_cannot_know_the_global_tokens():
    with pytest.raises(TypeError, match="needs to know the global tokens, which a config does not"):
        Encoder(small(positions=EtcPositions))


def test_labels_begin_as_long_as_one_whatever_the_width():
    assert_begins_with(0.25, EtcPositions(d_head=16, n_global=1, max_distance=60).a_key)


def test_labels_count_where_the_pattern_saves_work():
    layer = MultiHeadAttention(8, 2, pattern=etc(2, 3), positions=EtcPositions(4, 2, 3))
    assert_read_by_a_sparse_layer(scrambled(layer), randn(1, 400, 8))
