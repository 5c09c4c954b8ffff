"""Formulas against what PyTorch counts while the layers run, number for number."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tinyattn import MultiHeadAttention, sparse_attention
from tinyattn.analysis import complexity
from tinyattn.analysis.complexity import Cost
from tinyattn.analysis.measure import counted_flops
from tinyattn.families import Convolution, FullyConnected, Recurrence
from tinyattn.groups import schedule
from tinyattn.patterns import Causal, Random, Window, longformer, sparse_fixed, sparse_strided
from tinyattn.transformer import DecoderLayer, EncoderLayer, FeedForward, TransformerConfig

from ..patterns import by_hand

EXAMPLES = settings(max_examples=25)
lengths = st.integers(1, 40)
heads = st.integers(1, 4)
widths = st.integers(1, 12)


def counted(call):
    """Operations of the matrix products that run in a call."""
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def n_parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def saved(call, module=None):
    """Numbers in the tensors that autograd keeps of a call, each storage once, without weights."""
    kept, own = (
        [],
        {p.untyped_storage().data_ptr() for p in module.parameters()} if module else set(),
    )

    def keep(tensor):
        kept.append(tensor)  # alive, so that no address is given away again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() // 4 for t in kept}
    return sum(numbers for place, numbers in storages.items() if place not in own)


def tokens(n, d_model):
    return torch.randn(1, n, d_model, generator=torch.Generator().manual_seed(0)).requires_grad_()


# ------------------------------------------------------------ operations and parameters, exactly


@EXAMPLES
@given(n=lengths, n_k=st.none() | lengths, h=heads, d_head=widths, d_model=widths,
       bias=st.booleans(), causal=st.booleans())  # fmt: skip
def test_attention_costs_what_is_counted(n, n_k, h, d_head, d_model, bias, causal):
    pattern = Causal() if causal and n_k is None else None
    layer = MultiHeadAttention(d_model, h, d_head=d_head, bias=bias, pattern=pattern)
    context = None if n_k is None else tokens(n_k, d_model)
    cost = complexity.attention_cost(n, d_model, n_heads=h, d_head=d_head, n_k=n_k, bias=bias)
    assert cost.flops == counted(lambda: layer(tokens(n, d_model), context))
    assert cost.parameters == n_parameters(layer)
    sizes = {"n_heads": h, "d_head": d_head, "n_k": n_k}
    assert complexity.attention_flops(n, d_model, **sizes) == cost.flops


@EXAMPLES
@given(n=lengths, n_k=lengths, h=heads, d_head=widths, causal=st.booleans())
def test_the_core_costs_what_pytorch_counts_in_its_own(n, n_k, h, d_head, causal):
    q, k, v = (torch.randn(1, h, length, d_head) for length in (n, n_k, n_k))
    with sdpa_kernel(SDPBackend.MATH):  # of its fused kernel for this processor it counts nothing
        found = counted(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    assert complexity.core_cost(n, h, d_head, n_k=n_k).flops == found


@EXAMPLES
@given(n=lengths, d_model=widths, d_ff=widths, n_chunks=st.integers(1, 5))
def test_feed_forward_costs_what_is_counted_in_chunks_too(n, d_model, d_ff, n_chunks):
    layer = FeedForward(d_model, d_ff, n_chunks)
    cost = complexity.ffn_cost(n, d_model, d_ff)
    assert cost.flops == counted(lambda: layer(tokens(n, d_model)))
    assert cost.flops == complexity.ffn_flops(n, d_model, d_ff)
    assert cost.parameters == n_parameters(layer)
    assert complexity.ffn_cost(n, d_model) == complexity.ffn_cost(n, d_model, 4 * d_model)


@EXAMPLES
@given(n=lengths, n_memory=lengths, h=heads, d_head=widths, d_ff=widths, norm_first=st.booleans())
def test_encoder_and_decoder_layers_cost_what_is_counted(n, n_memory, h, d_head, d_ff, norm_first):
    d_model = h * d_head
    config = TransformerConfig(1, d_model=d_model, n_heads=h, d_ff=d_ff, norm_first=norm_first)
    x, memory = tokens(n, d_model), tokens(n_memory, d_model)
    layer, cost = EncoderLayer(config), complexity.encoder_layer_cost(n, d_model, d_ff, n_heads=h)
    assert (cost.flops, cost.parameters) == (counted(lambda: layer(x)), n_parameters(layer))
    causal = DecoderLayer(config, pattern=Causal(), cross_attention=False)
    assert (cost.flops, cost.parameters) == (counted(lambda: causal(x)), n_parameters(causal))
    both = DecoderLayer(config, pattern=Causal())
    cost = complexity.decoder_layer_cost(n, n_memory, d_model, d_ff, n_heads=h)
    assert (cost.flops, cost.parameters) == (counted(lambda: both(x, memory)), n_parameters(both))


@EXAMPLES
@given(n=lengths, d_model=widths, half=st.integers(0, 3), dilation=st.integers(1, 4),
       causal=st.booleans(), bias=st.booleans())  # fmt: skip
def test_the_other_layers_cost_what_is_counted(n, d_model, half, dilation, causal, bias):
    x, width = tokens(n, d_model), 2 * half + 1
    convolution = Convolution(d_model, width, dilation=dilation, causal=causal, bias=bias)
    for layer, cost in [
        (convolution, complexity.convolution_cost(n, d_model, width, bias=bias)),
        (Recurrence(d_model, bias=bias), complexity.recurrence_cost(n, d_model, bias=bias)),
        (nn.Linear(d_model, 7, bias=bias), complexity.linear_cost(n, d_model, 7, bias=bias)),
        (FullyConnected(n, d_model, bias=bias), complexity.fully_connected_cost(n, d_model, bias=bias)),
        (nn.LayerNorm(d_model), complexity.norm_cost(n, d_model)),
    ]:  # fmt: skip
        assert (cost.flops, cost.parameters) == (counted(lambda layer=layer: layer(x)), n_parameters(layer))  # fmt: skip


@EXAMPLES
@given(
    n=lengths,
    d_model=widths,
    width=st.integers(1, 6),
    dilation=st.integers(1, 4),
    bias=st.booleans(),
)
def test_causal_kernels_of_any_width_cost_what_is_counted(n, d_model, width, dilation, bias):
    layer = Convolution(d_model, width, dilation=dilation, causal=True, bias=bias)
    cost = complexity.convolution_cost(n, d_model, width, bias=bias)
    found = counted(lambda: layer(tokens(n, d_model)))
    assert (cost.flops, cost.parameters) == (found, n_parameters(layer))


@EXAMPLES
@given(n=lengths, n_k=lengths, h=heads, d_head=widths, bias=st.booleans(), causal=st.booleans())
def test_pytorchs_own_attention_costs_as_much(n, n_k, h, d_head, bias, causal):
    d_model = h * d_head
    layer = nn.MultiheadAttention(d_model, h, bias=bias, batch_first=True)
    x, context = tokens(n, d_model), tokens(n_k, d_model)
    mask = torch.ones(n, n_k, dtype=torch.bool).triu(1 + n_k - n) if causal else None
    with sdpa_kernel(SDPBackend.MATH):
        found = counted(lambda: layer(x, context, context, attn_mask=mask, need_weights=False))
    cost = complexity.attention_cost(n, d_model, n_heads=h, n_k=n_k, bias=bias)
    assert (cost.flops, cost.parameters) == (found, n_parameters(layer))


@EXAMPLES
@given(n=lengths, n_memory=lengths, h=heads, d_head=widths, d_ff=widths, norm_first=st.booleans())
def test_pytorchs_own_encoder_and_decoder_layers_cost_as_much(
    n, n_memory, h, d_head, d_ff, norm_first
):
    d_model = h * d_head
    x, memory = tokens(n, d_model), tokens(n_memory, d_model)
    sizes = {"dim_feedforward": d_ff, "norm_first": norm_first, "batch_first": True}
    encoder = nn.TransformerEncoderLayer(d_model, h, **sizes)
    decoder = nn.TransformerDecoderLayer(d_model, h, **sizes)
    with sdpa_kernel(SDPBackend.MATH):
        found = counted(lambda: encoder(x)), counted(lambda: decoder(x, memory))
    costs = (
        complexity.encoder_layer_cost(n, d_model, d_ff, n_heads=h),
        complexity.decoder_layer_cost(n, n_memory, d_model, d_ff, n_heads=h),
    )
    assert tuple(cost.flops for cost in costs) == found
    assert [cost.parameters for cost in costs] == [n_parameters(encoder), n_parameters(decoder)]


@EXAMPLES
@given(n=lengths, d_model=widths, bias=st.booleans())
def test_pytorchs_own_recurrence_costs_as_much_and_has_a_second_bias(n, d_model, bias):
    layer = nn.RNN(d_model, d_model, bias=bias, batch_first=True)
    cost = complexity.recurrence_cost(n, d_model, bias=bias)
    assert cost.flops == counted(lambda: layer(tokens(n, d_model)))
    assert cost.parameters + bias * d_model == n_parameters(layer)


@pytest.mark.parametrize(
    ("layer", "cost"),
    [
        (MultiHeadAttention(4, 2), complexity.attention_cost(5, 4, n_heads=2)),
        (Convolution(4, 3), complexity.convolution_cost(5, 4, 3)),
        (Recurrence(4), complexity.recurrence_cost(5, 4)),
        (nn.Linear(4, 7), complexity.linear_cost(5, 4, 7)),
        (FullyConnected(5, 4), complexity.fully_connected_cost(5, 4)),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_layer_has_biases_unless_it_is_told_otherwise(layer, cost):
    assert cost.parameters == n_parameters(layer)


# ---------------------------------------------------------------------------------- patterns

PATTERNS = [
    Window(3), Window(5) & Causal(), longformer(4, 2), sparse_strided(16), sparse_fixed(16, 2),
    Random(200, 3, seed=0),
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
@pytest.mark.parametrize("n", [0, 1, 63, 150, 200])
def test_computed_pairs_are_those_that_the_engine_multiplies(pattern, n):
    n = 200 if isinstance(pattern, Random) else n
    q, k, v = (torch.randn(2, 3, n, 4) for _ in range(3))
    pairs = complexity.computed_pairs(pattern, n)
    one = complexity.core_cost(n, 3, 4, n_pairs=pairs)
    if schedule(pattern, n).edges is None:  # of products edge by edge PyTorch counts nothing
        assert 2 * one.flops == counted(lambda: sparse_attention(q, k, v, pattern))
    assert pairs >= complexity.kept_pairs(pattern, n) == int(pattern.mask(n).sum())


@EXAMPLES
@given(case=by_hand.cases(100))
def test_pairs_of_expressions_are_kept_and_computed_as_counted(case):
    rule, n, n_k = case
    q, k = torch.randn(1, 1, n, 2), torch.randn(1, 1, n_k, 2)
    pairs = complexity.computed_pairs(rule.pattern, n, n_k)
    if schedule(rule.pattern, n, n_k).edges is None:
        assert 8 * pairs == counted(lambda: sparse_attention(q, k, k, rule.pattern))
    assert complexity.kept_pairs(rule.pattern, n, n_k) == int(rule.pattern.mask(n, n_k).sum())


def test_a_sparse_layer_costs_its_pairs_and_a_causal_one_all():
    x = tokens(256, 8)
    for pattern, pairs in [
        (Window(4), complexity.computed_pairs(Window(4), 256)),
        (Causal(), 256**2),  # half of the blocks is not worth leaving out
    ]:
        cost = complexity.attention_cost(256, 8, n_heads=2, n_pairs=pairs)
        assert cost.flops == counted(lambda p=pattern: MultiHeadAttention(8, 2, pattern=p)(x))


def test_gradients_cost_twice_the_forward_products_and_recomputing_the_weights_one_more():
    q, k, v = (tokens(256, 8)[:, None].detach().requires_grad_() for _ in range(3))
    forward = complexity.core_cost(256, 1, 8).flops
    with sdpa_kernel(SDPBackend.MATH):
        dense = counted(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward())
    assert dense == 3 * forward
    pairs = complexity.computed_pairs(Window(4), 256)
    forward = complexity.core_cost(256, 1, 8, n_pairs=pairs).flops
    sparse = counted_flops(lambda: sparse_attention(q, k, v, Window(4)).sum().backward())
    assert 2 * sparse == 7 * forward


# ------------------------------------------------------------------------- what stays in memory


@EXAMPLES
@given(n=lengths, n_k=lengths, h=heads, d_head=widths)
def test_the_core_keeps_q_k_v_and_weights_or_one_number_for_each_query(n, n_k, h, d_head):
    q, k, v = (torch.randn(1, h, m, d_head, requires_grad=True) for m in (n, n_k, n_k))
    textbook = saved(lambda: torch.softmax(q @ k.transpose(2, 3), dim=-1) @ v)
    assert complexity.core_cost(n, h, d_head, n_k=n_k).activations == textbook
    fused = saved(lambda: F.scaled_dot_product_attention(q, k, v))
    cost = complexity.core_cost(n, h, d_head, n_k=n_k, fused=True)
    out = n * h * d_head  # a fused kernel keeps its result too, which the next map keeps anyway
    assert cost.activations + out == fused


@EXAMPLES
@given(n=lengths, n_k=st.none() | lengths, d_model=widths, fused=st.booleans())
def test_an_attention_layer_keeps_what_its_parts_keep(n, n_k, d_model, fused):
    maps = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def layer():
        x = tokens(n, d_model)
        context = x if n_k is None else tokens(n_k, d_model)
        q, k, v = (f(y) for f, y in zip(maps, (x, context, context), strict=False))
        if fused:
            heads = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        else:
            heads = torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v
        return maps[3](heads)

    cost = complexity.attention_cost(n, d_model, n_k=n_k, fused=fused)
    assert cost.activations == saved(layer, maps)
    assert cost.activation_bytes() == 4 * cost.activations
    assert cost.activation_bytes(2) == 2 * cost.activations


@EXAMPLES
@given(n=lengths, d_model=widths, d_ff=widths, width=st.integers(1, 4))
def test_other_layers_keep_what_autograd_keeps(n, d_model, d_ff, width):
    x = tokens(n, d_model)
    for layer, cost in [
        (FeedForward(d_model, d_ff), complexity.ffn_cost(n, d_model, d_ff)),
        (nn.LayerNorm(d_model), complexity.norm_cost(n, d_model)),
        (nn.Linear(d_model, d_ff), complexity.linear_cost(n, d_model, d_ff)),
        (nn.Conv1d(d_model, d_model, width, padding=width),
         complexity.convolution_cost(n, d_model, width)),
        (Recurrence(d_model), complexity.recurrence_cost(n, d_model)),
        (FullyConnected(n, d_model), complexity.fully_connected_cost(n, d_model)),
    ]:  # fmt: skip
        inputs = x.detach().transpose(1, 2).contiguous() if isinstance(layer, nn.Conv1d) else x
        assert cost.activations == saved(lambda f=layer, x=inputs: f(x), layer), layer


def test_a_long_fused_layer_keeps_linearly_many_values():
    short, long = (complexity.attention_cost(n, 64, n_heads=8, fused=True) for n in (1000, 2000))
    assert long.activations == 2 * short.activations
    short, long = (complexity.attention_cost(n, 64, n_heads=8) for n in (1000, 2000))
    assert long.activations > 3.9 * short.activations


# ----------------------------------------------------------------------------------- by hand


def test_table_1_follows_with_the_terms_that_it_leaves_out():
    n, d = 96, 32
    attention, ffn = complexity.attention_cost(n, d, n_heads=4), complexity.ffn_cost(n, d)
    assert attention.macs == 4 * n * d**2 + 2 * n**2 * d
    assert attention.parameters == 4 * d**2 + 4 * d
    assert ffn.macs == 8 * n * d**2
    assert ffn.parameters == 8 * d**2 + 5 * d
    layer = complexity.encoder_layer_cost(n, d)
    assert layer.macs == 12 * n * d**2 + 2 * n**2 * d
    assert layer.parameters == 12 * d**2 + 13 * d
    assert complexity.decoder_layer_cost(n, n, d).parameters == 16 * d**2 + 19 * d
    assert (layer.steps, complexity.recurrence_cost(n, d).steps) == (2, n)


@pytest.mark.parametrize("d", [8, 64, 768])
def test_attention_overtakes_at_three_lengths_by_three_rules(d):
    def core(n):
        return complexity.core_cost(n, 1, d).macs

    assert core(4 * d) == complexity.ffn_cost(4 * d, d).macs
    assert complexity.attention_cost(2 * d, d).macs == complexity.ffn_cost(2 * d, d).macs
    assert core(d) // 2 == complexity.linear_cost(d, d, d).macs  # n² d against n d²


def test_costs_of_layers_in_a_row_add_up():
    one, other = Cost(1, 2, 3), Cost(10, 20, 30, 5)
    assert one + other == Cost(11, 22, 33, 6)
    assert 3 * one == one * 3 == one + one + one
    assert (one.flops, other.activation_bytes(8)) == (2, 240)


# ---------------------------------------------------------------------------------- refusals

REFUSED = {
    "fewer tokens than none": (lambda: complexity.attention_cost(-1, 8), ValueError, "n must be 0 or more, got -1"),
    "half a token": (lambda: complexity.ffn_cost(1.5, 8), TypeError, r"n must be a whole number, got 1\.5"),
    "no width": (lambda: complexity.attention_cost(5, 0), ValueError, "d_model must be 1 or more, got 0"),
    "heads that do not divide": (lambda: complexity.attention_cost(5, 8, n_heads=3), ValueError, "got d_model=8 and n_heads=3; or give d_head"),
    "no head": (lambda: complexity.core_cost(5, 0, 8), ValueError, "n_heads must be 1 or more, got 0"),
    "negative pairs": (lambda: complexity.core_cost(5, 1, 8, n_pairs=-2), ValueError, "n_pairs must be 0 or more, got -2"),
    "negative memory": (lambda: complexity.decoder_layer_cost(5, -1, 8), ValueError, "n_k must be 0 or more, got -1"),
    "no hidden width": (lambda: complexity.ffn_cost(5, 8, 0), ValueError, "d_out must be 1 or more, got 0"),
    "an empty kernel": (lambda: complexity.convolution_cost(5, 8, 0), ValueError, "width must be 1 or more, got 0"),
    "a layer for no token": (lambda: complexity.fully_connected_cost(0, 8), ValueError, "n must be 1 or more, got 0"),
    "half a layer": (lambda: 0.5 * Cost(1, 1, 1), TypeError, r"n_layers must be a whole number, got 0\.5"),
    "a matrix": (lambda: complexity.kept_pairs(torch.ones(3, 3) > 0, 3), TypeError, r"a rule such as Causal\(\), got Tensor"),
    "a string": (lambda: complexity.computed_pairs("window", 3), TypeError, r"a rule such as Causal\(\), got str"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "error", "sentence"), REFUSED.values(), ids=REFUSED)
def test_sizes_without_meaning_are_refused(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask()
