"""Derivatives against rules that are known, and chains of operations against chains by hand."""

import pytest
import torch
from torch import nn

from tinyattn import MultiHeadAttention
from tinyattn.analysis import (
    dependencies,
    dilated_layers,
    layer_claims,
    longest_chain,
    path_lengths,
)
from tinyattn.analysis.ledger import Claim, Ledger
from tinyattn.families import Convolution, FullyConnected, Recurrence
from tinyattn.patterns import Causal, Dilated, Window, longformer

from ..patterns import by_hand


def tokens(n, d_model, seed=0):
    return torch.randn(
        1, n, d_model, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


PATTERNS = [Window(2), Causal(), Dilated(2, 3), longformer(1, 2)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
def test_an_attention_layer_depends_on_what_its_pattern_allows(pattern):
    layer = MultiHeadAttention(4, 2, pattern=pattern).double()
    assert torch.equal(dependencies(layer, tokens(13, 4)), pattern.mask(13))


@pytest.mark.parametrize("n", [1, 2, 9])
def test_other_layers_depend_on_what_they_read(n):
    i, j = torch.arange(n)[:, None], torch.arange(n)
    expected = {
        Convolution(3, 3): (i - j).abs() <= 1,
        Convolution(3, 2, dilation=3, causal=True): (i == j) | (i - j == 3),
        Recurrence(3): j <= i,
        FullyConnected(n, 3): torch.ones(n, n, dtype=torch.bool),
        nn.Linear(3, 5): i == j,
        nn.Identity(): i == j,
    }
    for layer, who in expected.items():
        assert torch.equal(dependencies(layer.double(), tokens(n, 3)), who)


def test_rows_are_outputs_and_columns_inputs_also_where_their_numbers_differ():
    def halves(x):
        return torch.stack([x[:, :2].sum(dim=1), x[:, 2:].sum(dim=1)], dim=1)

    assert dependencies(halves, tokens(5, 3)).int().tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]
    one_channel = dependencies(lambda x: x[:, :1, :1] * x[:, -1:, 2:3], tokens(4, 3))
    assert one_channel.tolist() == [[True, False, False, True]]


def test_an_edge_in_any_channel_is_an_edge():
    def crossed(x):
        return torch.stack([x[..., 1], x[..., 0].roll(1, dims=1)], dim=-1)  # (1, n, 2)

    expected = torch.eye(4, dtype=torch.bool) | torch.eye(4, dtype=torch.bool).roll(1, dims=0)
    assert torch.equal(dependencies(crossed, tokens(4, 2)), expected)


def test_no_order_of_signs_cancels_a_dependence():
    def difference(x):
        return x[..., :1] - x[..., 1:]  # the derivatives of one token sum to zero

    assert torch.equal(dependencies(difference, tokens(3, 2)), torch.eye(3, dtype=torch.bool))


def test_a_layers_graph_can_be_followed_like_a_patterns():
    found = dependencies(Convolution(2, 5).double(), tokens(12, 2))
    assert torch.equal(path_lengths(found), path_lengths(Window(2), 12))


REFUSED = {
    "a batch": (lambda: dependencies(nn.Identity(), torch.zeros(2, 3, 4)), r"one sequence, .*got \(2, 3, 4\)"),
    "no batch axis": (lambda: dependencies(nn.Identity(), torch.zeros(3, 4)), r"one sequence, .*got \(3, 4\)"),
    "a sum": (lambda: dependencies(lambda x: x.sum(dim=1), torch.zeros(1, 3, 4)), r"must make one sequence of one, .*got \(1, 4\)"),
    "no operation": (lambda: longest_chain(torch.ones(2)), "gradients can be taken of, got one without"),
    "a leaf": (lambda: longest_chain(torch.ones(2, requires_grad=True)), "got one without"),
    "no token": (lambda: dilated_layers(0, 2), "n must be 1 or more .*, got n=0"),
    "a kernel of one": (lambda: dilated_layers(5, 1), "width 2 or more, got n=5 and width=1"),
}  # fmt: skip


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(("ask", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_answer_is_refused(ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask()


# ------------------------------------------------------------------------------------ chains


def test_the_longest_way_through_a_result_counts():
    x = torch.ones(4, requires_grad=True)
    assert longest_chain(x * 2) == 1
    assert longest_chain((x * 2).exp().sin()) == 3
    assert longest_chain(x.exp() + (x * 2).exp().sin()) == 4  # the longer side, and the sum
    shared = x.exp()
    for _ in range(60):  # 2^60 ways, each operation once
        shared = shared + shared
    assert longest_chain(shared) == 61


def test_a_chain_of_many_thousand_steps_is_counted_without_recursion():
    x = torch.ones((), requires_grad=True)
    out = x
    for _ in range(20_000):
        out = out * 1
    assert longest_chain(out) == 20_000


def test_only_recurrence_waits_longer_for_more_tokens():
    kinds = {
        "attention": lambda n: MultiHeadAttention(4, 2),
        "window": lambda n: MultiHeadAttention(4, 2, pattern=Window(2)),
        "connected": lambda n: FullyConnected(n, 4),
        "convolution": lambda n: Convolution(4, 3),
        "recurrence": lambda n: Recurrence(4),
    }
    for name, kind in kinds.items():
        steps = [longest_chain(kind(n)(torch.zeros(1, n, 4))) for n in (5, 10, 20)]
        if name == "recurrence":
            assert steps[2] - steps[1] == 2 * (steps[1] - steps[0]) == 30
        else:
            assert steps[0] == steps[1] == steps[2]


# ------------------------------------------------------------------------------------ claims


def test_a_stack_of_dilated_kernels_reaches_a_power_of_their_width():
    for n, width, needed in [(27, 3, 3), (28, 3, 4), (16, 4, 2), (17, 4, 3), (8, 2, 3), (1, 3, 0)]:
        assert dilated_layers(n, width) == needed


@pytest.mark.parametrize("width", [2, 3, 4])
def test_dilated_layers_are_those_of_a_stack_that_runs(width):
    for n in (1, 2, width, width + 1, width**2, width**2 + 1):
        needed = dilated_layers(n, width)
        stack = nn.Sequential(
            *(Convolution(1, width, dilation=width**m, causal=True) for m in range(needed))
        ).double()
        assert dependencies(stack, tokens(n, 1))[-1].all()
        if needed:
            assert not dependencies(stack[:-1], tokens(n, 1))[-1].all()


def test_claims_about_layers_hold_and_would_not_with_another_exponent():
    claims = layer_claims()
    assert {claim.where for claim in claims} == {"05_comparison"}
    Ledger(claims).check()
    for claim in claims:
        for step in (-1, 1):
            planted = Claim(claim.name, claim.claimed + step, claim.counted)
            with pytest.raises(AssertionError, match="1 of 1 claims is off"):
                Ledger([planted]).check()


def test_no_name_of_a_claim_is_taken_twice_in_the_book():
    from tinyattn.analysis import complexity_claims, pattern_claims

    Ledger([*complexity_claims(), *layer_claims(), *pattern_claims()])  # refuses a second one


def test_public_patterns_are_found_again_in_a_layer():
    own = torch.eye(9, dtype=torch.bool)  # a token asks, even where it does not read itself
    for name, rule in by_hand.public(9).items():
        layer = MultiHeadAttention(2, 1, pattern=rule.pattern).double()
        assert torch.equal(dependencies(layer, tokens(9, 2)) | own, rule.mask(9) | own), name
