"""BP-Transformer's layers: typed edges by loops, padding, two hops, and no way from the future."""

import pytest
import torch

from tinyattn import attention
from tinyattn.patterns import Window, bp_transformer
from tinyattn.transformer import (
    BPTransformer,
    EdgeTypes,
    MultiHeadAttention,
    TransformerConfig,
)

from ..close import assert_same
from .tiny import (
    assert_begins_with,
    assert_read_by_a_sparse_layer,
    randn,
    scrambled,
    small,
)

CONFIG = TransformerConfig(vocab_size=11, d_model=8, n_heads=2, d_ff=16, n_layers=2)


def typed(k=2, clip=2, causal=False):
    tree = bp_transformer(8, k, causal=causal)
    return scrambled(MultiHeadAttention(8, 2, pattern=tree, positions=EdgeTypes(tree, 4, clip)), 0)


@pytest.mark.parametrize("clip", [0, 1, 9])
def test_a_typed_edge_adds_its_vector_to_the_key(clip):
    layer, x = typed(clip=clip), randn(2, 15, 8)
    q, k, v = (layer.split_heads(m(x)) for m in (layer.query, layer.key, layer.value))
    tree, at = layer.pattern, torch.arange(15)
    types = tree.edge_types(at[:, None], at, clip)
    out = torch.zeros_like(q)
    for i in range(15):
        read = (types[i] >= 0).nonzero()[:, 0]
        keys = k[:, :, read] + layer.positions.r[types[i, read]]
        out[:, :, i : i + 1] = attention(q[:, :, i : i + 1], keys, v[:, :, read])
    assert_same(layer(x), layer.join_heads(out))


def test_a_type_changes_nothing_within_a_span():
    layer, x = typed(), randn(2, 15, 8)
    before = layer(x)
    with torch.no_grad():
        layer.positions.r[4::5] += 3.0  # slot 2 k: a token for itself, or for its span
    after = layer(x)
    assert_same(after[:, 8:], before[:, 8:])
    assert not torch.allclose(after[:, :8], before[:, :8])


def test_what_is_stored_of_typed_edges_is_what_they_learn():
    assert list(EdgeTypes(bp_transformer(8, 2), 4).state_dict()) == ["r"]


def test_vectors_of_types_start_with_a_length_of_about_one():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        r = EdgeTypes(bp_transformer(64, 4), 100).r
    assert r.pow(2).sum(dim=1).mean().item() == pytest.approx(1.0, abs=0.05)


def test_a_pre_norm_model_normalises_what_it_returns():
    tokens, root = BPTransformer(CONFIG, 8, 1)(torch.tensor([[3, 1, 4, 1, 5]]))
    for x in (tokens, root):
        assert_same(x.mean(dim=-1), torch.zeros(x.shape[:-1]), atol=1e-6)
        assert_same(x.var(dim=-1, correction=0), torch.ones(x.shape[:-1]), rtol=1e-3, atol=0)


def test_there_is_a_vector_for_each_slot_of_each_size():
    assert EdgeTypes(bp_transformer(64, 3), 4, clip=2).r.shape == (7 * 3, 4)
    assert EdgeTypes(bp_transformer(64, 3), 4).types.max() < 7 * 6


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("n", [1, 5, 8])
def test_a_short_text_is_padded_and_its_padding_read_by_nobody(n, norm_first):
    config = TransformerConfig(**{**CONFIG.__dict__, "norm_first": norm_first})
    model = scrambled(BPTransformer(config, n=8, k=2), 0)
    tokens = torch.randint(11, (3, 8), generator=torch.Generator().manual_seed(0))
    leaves, root = model(tokens[:, :n])
    assert leaves.shape == (3, n, 8)
    real = (torch.arange(8) < n).expand(3, 8)
    changed = torch.where(real, tokens, (tokens + 3) % 11)
    again, same_root = model(changed, key_padding=real)
    assert_same(again[:, :n], leaves)
    assert_same(same_root, root)


def test_a_span_that_ends_in_padding_is_read():
    """Token 0 hears of token 4 through the span of tokens 4 to 7 alone, three of them padding."""
    model, tokens = scrambled(BPTransformer(CONFIG, n=8, k=1), 0), torch.arange(5)[None]
    other = tokens.clone()
    other[0, 4] = 9
    assert not torch.allclose(model(other)[0][:, 0], model(tokens)[0][:, 0])


def test_two_layers_tell_every_token_of_every_other_and_one_does_not():
    tokens = torch.arange(8)[None]
    for n_layers, everyone in ((1, False), (2, True)):
        config = TransformerConfig(**{**CONFIG.__dict__, "n_layers": n_layers})
        model = scrambled(BPTransformer(config, n=8, k=1), 0)
        before, _ = model(tokens)
        heard = torch.zeros(8, 8, dtype=torch.bool)
        for j in range(8):
            other = tokens.clone()
            other[0, j] = 9
            heard[:, j] = (model(other)[0] - before).abs().amax(dim=(0, 2)) > 1e-9
        assert heard.all() == everyone


def test_a_causal_model_hears_nothing_of_later_tokens():
    model = scrambled(BPTransformer(CONFIG, n=8, k=1, causal=True), 0)
    tokens = torch.arange(8)[None]
    before, _ = model(tokens)
    for j in range(1, 8):
        other = tokens.clone()
        other[0, j:] = 9
        assert torch.equal(model(other)[0][:, :j], before[:, :j])


def test_the_root_hears_of_every_token():
    model, tokens = scrambled(BPTransformer(CONFIG, n=8, k=1), 0), torch.arange(8)[None]
    _, before = model(tokens)
    for j in range(8):
        other = tokens.clone()
        other[0, j] = 9
        assert not torch.allclose(model(other)[1], before)


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: EdgeTypes(Window(1), 4), TypeError, r"need bp_transformer\(n, k\), got Window"),
        (lambda: EdgeTypes(bp_transformer(4, 1), 0), ValueError, "got d_head=0, clip=5"),
        (lambda: EdgeTypes(bp_transformer(4, 1), 4, -1), ValueError, "got d_head=4, clip=-1"),
        (
            lambda: BPTransformer(CONFIG, 4, 1)(torch.zeros(1, 5, dtype=torch.long)),
            ValueError,
            "room for 4 tokens, got 5",
        ),
    ],
)
def test_what_does_not_fit_a_tree_is_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


SOME, YES = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
UNREADABLE = {
    "padding of floats": (SOME, YES.float(), TypeError, "key_padding must be bool .* got torch.float32"),
    "padding of one sequence": (SOME, YES[0], ValueError, r"\(b, n\) = \(2, 3\), got \(3,\)"),
    "one padding for all tokens": (SOME, YES[:, :1], ValueError, r"\(b, n\) = \(2, 3\), got \(2, 1\)"),
    "padding of more tokens": (SOME, torch.ones(2, 4, dtype=torch.bool), ValueError, r"got \(2, 4\)"),
    "tokens of one axis": (SOME[0], None, ValueError, r"tokens must be \(b, n\), got \(3,\)"),
    "tokens of three axes": (SOME[None], None, ValueError, r"tokens must be \(b, n\), got \(1, 2, 3\)"),
    "vectors": (torch.zeros(2, 3, 8), None, TypeError, "tokens must be integers, got torch.float32"),
    "truth values": (YES, None, TypeError, "tokens must be integers, got torch.bool"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    ("tokens", "padding", "error", "sentence"), UNREADABLE.values(), ids=UNREADABLE
)
def test_what_a_tree_cannot_read_is_refused(tokens, padding, error, sentence):
    with pytest.raises(error, match=sentence):
        BPTransformer(small(), n=4, k=1)(tokens, key_padding=padding)


def test_edge_types_begin_as_long_as_one_whatever_the_width():
    assert_begins_with(0.25, EdgeTypes(bp_transformer(8, k=20), d_head=16).r)


def test_edge_types_count_in_a_tree_that_is_worth_its_sparsity():
    tree = bp_transformer(512, k=1)
    layer = MultiHeadAttention(8, 2, pattern=tree, positions=EdgeTypes(tree, 4))
    assert_read_by_a_sparse_layer(scrambled(layer), randn(1, tree.n_nodes, 8))


def test_edge_types_meet_heads_and_trees_of_their_own_size():
    tree = bp_transformer(4, 1)
    x = torch.randn(1, tree.n_nodes, 8)
    with pytest.raises(ValueError, match=r"edge types of d_head=3 must meet heads .* got 4"):
        MultiHeadAttention(8, 2, pattern=tree, positions=EdgeTypes(tree, 3))(x)
    layer = MultiHeadAttention(8, 2, positions=EdgeTypes(tree, 4))
    with pytest.raises(ValueError, match=f"the tree has {tree.n_nodes} nodes, got position"):
        layer(torch.randn(1, tree.n_nodes + 3, 8))
