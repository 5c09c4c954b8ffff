"""NumPy's integers as parameters, lengths and positions: they overflow, so none may be kept."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from tinyattn import patterns
from tinyattn.groups import schedule
from tinyattn.patterns.grid import BlockAndMemory, Tiles
from tinyattn.patterns.pieces import After, LastOfBlock, Summaries
from tinyattn.patterns.tree import BinaryTree

N = 100  # more than int8 and uint8 hold twice
RULES = {  # each of a function that makes whole numbers be of one kind
    "window": lambda x: patterns.Window(x(3)),
    "dilated": lambda x: patterns.Dilated(x(20), x(9)),
    "strided": lambda x: patterns.Strided(x(7)),
    "blocks": lambda x: patterns.BlockLocal(x(3), before=x(1), after=x(2)),
    "global": lambda x: patterns.Global(x(3)),
    "global positions": lambda x: patterns.Global((x(90), x(3))),
    "random": lambda x: patterns.Random(x(100), x(3), seed=x(1), block_size=x(2)),
    "matched": lambda x: patterns.MatchedBlocks(x(60), (x(1), x(0))),
    "rows": lambda x: patterns.axial_rows(x(20)),
    "columns": lambda x: patterns.axial_columns(x(20)),
    "image, 1-D": lambda x: patterns.image_1d(x(20), x(20)),
    "block and memory": lambda x: BlockAndMemory(x(20), x(20)),
    "image, 2-D": lambda x: patterns.image_2d(x(10), x(20), (x(4), x(4)), x(1), causal=False),
    "longformer": lambda x: patterns.longformer(x(2), x(1)),
    "etc": lambda x: patterns.etc(x(2), x(1), (x(30), x(68))),
    "etc, unstructured": lambda x: patterns.etc(x(2), x(1)),
    "bigbird": lambda x: patterns.bigbird(x(100), x(3), x(2), x(0)),
    "bigbird, external": lambda x: patterns.bigbird(x(100), x(4), x(2), x(0), n_global=x(8)),
    "sparse strided": lambda x: patterns.sparse_strided(x(9)),
    "sparse fixed": lambda x: patterns.sparse_fixed(x(9), x(2)),
    "tree": lambda x: patterns.bp_transformer(x(64), x(2)),
    "binary tree": lambda x: BinaryTree(x(64), x(2), causal=True),
    "last of block": lambda x: LastOfBlock(x(9), x(2)),
    "after": lambda x: After(x(3)),
    "summaries": lambda x: Summaries((x(30), x(60))),
}


def numbers(value: object) -> list[object]:
    """All leaves of a rule: what stands in its fields, and in those of the rules in it."""
    if isinstance(value, patterns.Pattern | Tiles):
        return [leaf for field in fields(value) for leaf in numbers(getattr(value, field.name))]
    if isinstance(value, tuple):
        return [leaf for one in value for leaf in numbers(one)]
    return [value]


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint32, np.int64])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_of_numpys_integers_is_the_rule_of_pythons(rule, kind):
    with np.errstate(all="raise"):
        given, plain = rule(kind), rule(int)
        assert given == plain
        assert hash(given) == hash(plain)
        assert repr(given) == repr(plain)
        assert {type(leaf) for leaf in numbers(given)} <= {int, bool, type(None)}
        assert torch.equal(given.mask(kind(N)), plain.mask(N))
        assert torch.equal(given.mask(kind(5), kind(N)), plain.mask(5, N))
        assert type(given.edges(kind(N))) is int
        assert given.edges(kind(N)) == int(plain.mask(N).sum())
        assert schedule(given, kind(N)).n_pairs == schedule(plain, N).n_pairs


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_answers_the_same_whatever_dtype_the_positions_have(rule, dtype):
    i = torch.arange(N, dtype=dtype)
    assert torch.equal(rule(int).allowed(i[:, None], i[None, :]).expand(N, N), rule(int).mask(N))


def test_painted_rules_take_small_positions_and_rules_of_a_reader_do_too():
    class Near(patterns.Pattern):
        def allowed(self, i, j):
            """Up to three apart."""
            return (i - j).abs() <= 3

    i = torch.arange(N, dtype=torch.uint8)
    window = patterns.Window(3).mask(N)
    assert torch.equal(patterns.Painted(window).allowed(i[:, None], i), window)
    assert torch.equal(Near().allowed(i[:, None], i), window)
    assert Near.allowed.__doc__ == "Up to three apart."


@pytest.mark.usefixtures("refusals")
def test_the_helpers_of_patterns_take_numpys_integers():
    assert type(patterns.radius_from_window(np.int8(100))) is int
    order = patterns.generation_order(np.int8(20), np.int8(20), np.int8(4))
    assert torch.equal(order, patterns.generation_order(20, 20, 4))
    i = torch.arange(N)
    rule = patterns.mask_mod(patterns.Causal(), np.uint8(90), np.uint8(N))
    assert torch.equal(rule(None, None, i[:90, None], i), patterns.Causal().mask(90, N))


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    "build",
    [
        lambda: patterns.Window(torch.tensor(3)),
        lambda: patterns.Global((torch.tensor(3),)),
        lambda: patterns.MatchedBlocks(2, (torch.tensor(1), torch.tensor(0))),
        lambda: patterns.bigbird(32, 4, 1, torch.tensor(0)),
        lambda: patterns.Causal().mask(torch.tensor(3)),
        lambda: patterns.Causal().edges(torch.tensor(3)),
    ],
)
def test_tensors_are_no_whole_numbers(build):
    with pytest.raises(TypeError, match=r"must be a whole number, got tensor\("):
        build()


@pytest.mark.usefixtures("refusals")
@pytest.mark.parametrize(
    "build",
    [
        lambda: patterns.MatchedBlocks(2, torch.tensor([1, 0])),
        lambda: patterns.MatchedBlocks(2, 1),
        lambda: patterns.etc(2, 1, 3),
        lambda: Summaries("12"),
    ],
)
def test_what_is_no_sequence_of_numbers_is_refused_by_its_name(build):
    with pytest.raises(
        TypeError, match=r"(partners|sentences) must be a tuple of (blocks|lengths)"
    ):
        build()


@pytest.mark.usefixtures("refusals")
def test_a_list_is_as_good_as_a_tuple():
    assert patterns.Global([4, 1]) == patterns.Global((1, 4))
    assert patterns.MatchedBlocks(2, [1, 0]) == patterns.MatchedBlocks(2, (1, 0))
    assert patterns.MatchedBlocks(2, np.array([1, 0])) == patterns.MatchedBlocks(2, (1, 0))
    assert patterns.etc(2, 1, [3, 4]) == patterns.etc(2, 1, (3, 4))
    assert hash(Summaries([3, 4])) == hash(Summaries((3, 4)))
    assert patterns.image_2d(4, 4, [2, 2], [1, 0]) == patterns.image_2d(4, 4, (2, 2), (1, 0))


LARGEST = 2**63 - 1  # that int64 holds, as positions are
LARGE = {  # of one parameter each
    "window": lambda x: patterns.Window(x),
    "dilated": lambda x: patterns.Dilated(x),
    "dilation": lambda x: patterns.Dilated(1, x),
    "strided": lambda x: patterns.Strided(x),
    "blocks": lambda x: patterns.BlockLocal(x),
    "blocks before": lambda x: patterns.BlockLocal(1, before=x),
    "blocks after": lambda x: patterns.BlockLocal(1, after=x),
    "global": lambda x: patterns.Global(x),
    "global keys": lambda x: patterns.Global(x, reads=False),
    "random": lambda x: patterns.Random(N, 1, seed=0, block_size=x),
    "matched": lambda x: patterns.MatchedBlocks(x, (0,)),
    "rows": lambda x: patterns.axial_rows(x),
    "columns": lambda x: patterns.axial_columns(x),
    "image, 1-D": lambda x: patterns.image_1d(x, 1),
    "image, 1-D, memory": lambda x: patterns.image_1d(1, x),
    "image, 2-D, block": lambda x: patterns.image_2d(10, 10, x, 0),
    "image, 2-D, flange": lambda x: patterns.image_2d(10, 10, 3, x - 3),
    "last of block": lambda x: LastOfBlock(x, 1),
    "after": lambda x: After(x),
    "summaries": lambda x: Summaries((x - 1,)),
}


@pytest.mark.parametrize("rule", LARGE.values(), ids=LARGE)
def test_a_rule_of_the_largest_number_is_that_of_one_beyond_all_tokens(rule):
    large, beyond = rule(LARGEST), rule(10 * N)
    assert torch.equal(large.mask(N), beyond.mask(N))
    assert torch.equal(large.mask(5, N), beyond.mask(5, N))
    assert large.edges(N) == int(beyond.mask(N).sum())
    groups = schedule(large, N).groups
    assert sum(group.n_allowed for group in groups) == large.edges(N)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64, 2**70])
@pytest.mark.parametrize("rule", LARGE.values(), ids=LARGE)
def test_what_int64_does_not_hold_is_refused(rule, value):
    with pytest.raises(ValueError, match=r"must be below 2\^63, as positions are int64, got \d+"):
        rule(value)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: patterns.Dilated(2**40, 2**40), r"w \* dilation"),
        (lambda: patterns.Global((0, LARGEST)), "g, counted from 1,"),
        (lambda: patterns.Global((0, 2**70)), "g"),
        (lambda: patterns.image_2d(4, 4, 2**62, 2**62), r"block \+ flange"),
        (lambda: patterns.image_2d(4, 4, (1, 2**62), (1, 2**62)), r"block \+ flange"),
        (lambda: Summaries((2**62, 2**62)), "the number of tokens in sentences"),
        (lambda: patterns.etc(2, 1, (2**62, 2**62)), "the number of tokens in sentences"),
        (lambda: BinaryTree(2**62, 1), "2 n, and 2 k,"),
        (lambda: BinaryTree(4, 2**62), "2 n, and 2 k,"),
        (lambda: patterns.bp_transformer(2**70, 1), "n"),
        (lambda: patterns.Random(2**63, 1, seed=0, block_size=2**62), "n, and block_size,"),
    ],
)
def test_what_a_rule_reckons_with_is_held_by_int64_too(build, name):
    with pytest.raises(ValueError, match=rf"^{name} must be below 2\^63, .*, got \d+"):
        build()
