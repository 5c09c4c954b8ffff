"""The list of symbols: every name in it stands in the code, and every size of the code in it."""

import inspect
import re
from dataclasses import FrozenInstanceError
from importlib import import_module

import pytest
import torch

from tinyattn.analysis import linear_cost, mixing_time
from tinyattn.content import (
    EdgePredictor,
    RoutingRouter,
    SACRouter,
    SortingNetwork,
    lsh_attention,
    soft_permutation,
    sortcut_attention,
)
from tinyattn.families import Linformer, nystrom_attention
from tinyattn.patterns import (
    BlockLocal,
    Dilated,
    Full,
    Global,
    Random,
    Strided,
    Window,
    bp_transformer,
    etc,
)
from tinyattn.show import notation
from tinyattn.show.notation import NOTATION, PARTS, Symbol, notation_table
from tinyattn.transformer import (
    AxialPositions,
    AxialTransformer,
    Decoder,
    FeedForward,
    TransformerConfig,
    generate,
)

from ..transformer.tiny import small

PACKAGES = ("patterns", "content", "transformer", "families", "analysis")
# Names of one letter that are parameters and no symbols of the book.
PLAIN = {"a", "f"}


def named(where: str):
    """What a dotted name below `tinyattn` stands for: a function, a class or a method of one."""
    parts = where.split(".")
    for n_modules in range(len(parts) - 1, -1, -1):
        try:
            found = import_module(".".join(["tinyattn", *parts[:n_modules]]))
        except ModuleNotFoundError:
            continue
        for name in parts[n_modules:]:
            found = getattr(found, name)
        return found
    raise AssertionError(where)


def code_of(where: str) -> str:
    """The source without its docstrings."""
    return re.sub(r'""".*?"""', "", inspect.getsource(named(where)), flags=re.DOTALL)


def parameters() -> set[str]:
    """Of all public functions and classes."""
    names: set[str] = set()
    for package in PACKAGES:
        module = import_module(f"tinyattn.{package}")
        public = [getattr(module, name) for name in module.__all__]
        for thing in filter(callable, public):
            names |= set(inspect.signature(thing).parameters)
    return names


@pytest.mark.parametrize("symbol", NOTATION, ids=lambda symbol: f"{symbol.sign} {symbol.code}")
def test_a_symbol_stands_where_the_list_says(symbol):
    assert bool(symbol.where) == bool(symbol.code)
    for where in symbol.where:
        assert re.search(rf"\b{symbol.code}\b", code_of(where)), where


def heads(*shape):
    return torch.zeros(1, 1, *shape)


TAKERS = {  # for each code name with a least value: something public that takes it
    "n": lambda size: Full().mask(size),
    "d_model": lambda size: TransformerConfig(9, d_model=size, n_heads=1),
    "d_head": lambda size: RoutingRouter(2, 3, size, causal=True, seed=0),
    "d_ff": lambda size: TransformerConfig(9, d_ff=size),
    "n_heads": lambda size: TransformerConfig(9, n_heads=size),
    "n_layers": lambda size: TransformerConfig(9, n_layers=size),
    "n_decoder_layers": lambda size: TransformerConfig(9, n_decoder_layers=size),
    "n_new": lambda size: generate(Decoder(small()), torch.zeros(1, 1, dtype=torch.long), size),
    "n_chunks": lambda size: FeedForward(8, 8, n_chunks=size),
    "w": Window,
    "dilation": lambda size: Dilated(1, size),
    "stride": Strided,
    "g": Global,
    "n_global": lambda size: etc(size, 1),
    "r": lambda size: Random(4, size, seed=0),
    "block_size": BlockLocal,
    "k": lambda size: bp_transformer(4, size),
    "height": lambda size: AxialPositions(size, 2, 4),
    "width": lambda size: AxialPositions(2, size, 4),
    "n_inner": lambda size: AxialTransformer(small(), 2, 2, size),
    "n_hashes": lambda size: lsh_attention(heads(4, 2), heads(4, 2), n_buckets=2, n_hashes=size),
    "n_clusters": lambda size: RoutingRouter(2, size, 4, causal=True, seed=0),
    "n_iters": lambda size: soft_permutation(heads(2, 2), n_iters=size),
    "n_kept": lambda size: sortcut_attention(*[heads(4, 2)] * 3, heads(2, 2), n_kept=size),
    "edges_per_token": lambda size: SACRouter(2, 4, edges_per_token=size),
    "d_hidden": lambda size: EdgePredictor(2, size),
    "d_node": lambda size: EdgePredictor(size, 2),
    "d_summary": lambda size: SortingNetwork(2, size, 3),
    "n_memory": lambda size: Linformer(4, 2, n=8, n_memory=size),
    "n_landmarks": lambda size: nystrom_attention(*[heads(4, 2)] * 3, n_landmarks=size),
    "d_in": lambda size: linear_cost(3, size, 2),
    "d_out": lambda size: linear_cost(3, 2, size),
    "n_steps": lambda size: mixing_time(Full(), 4, n_steps=size),
}


@pytest.mark.parametrize("code", TAKERS)
def test_the_code_takes_the_smallest_value_of_a_range_and_no_smaller_one(code):
    said = {re.fullmatch(r"≥ (\d)", symbol.shape) for symbol in NOTATION if symbol.code == code}
    (least,) = {int(found[1]) for found in said if found}
    TAKERS[code](least)
    with pytest.raises(ValueError, match=rf"\b{code}\b"):
        TAKERS[code](least - 1)


def test_every_least_value_is_tried():
    assert {one.code for one in NOTATION if re.match(r"≥ \d", one.shape) and one.code} == {*TAKERS}


def test_every_size_of_the_code_is_in_the_list():
    sizes = {name for name in parameters() if re.fullmatch(r"[nd]_\w+|[a-z]", name)}
    assert len(sizes) > 30
    assert sizes - PLAIN - {symbol.code for symbol in NOTATION} == set()


def test_a_symbol_means_one_thing_in_a_part():
    for part in PARTS:
        codes = [symbol.code for symbol in NOTATION if symbol.part == part and symbol.code]
        assert len(set(codes)) == len(codes)


def test_the_tables_hold_every_symbol_once():
    n_rows = sum(len(notation_table(part).splitlines()) - 2 for part in PARTS)
    assert n_rows == len(NOTATION)
    assert all(isinstance(symbol, Symbol) for symbol in NOTATION)


def test_what_a_symbol_lacks_is_a_dash_and_what_it_has_stands_in_its_cell(monkeypatch):
    symbols = (
        Symbol("Sizes", "n", "length", "1 …", survey="T", code="n"),
        Symbol("Sizes", "|x|", "norm"),
        Symbol("Grids", "y", "elsewhere"),
    )
    monkeypatch.setattr(notation, "NOTATION", symbols)
    assert notation_table("Sizes").splitlines()[2:] == [
        "| $n$ | length | 1 … | $T$ | `n` |",
        r"| $\|x\|$ | norm |  | – | – |",
    ]


def test_bars_in_formulas_do_not_end_a_cell():
    rows = [row for part in PARTS for row in notation_table(part).splitlines()]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match=r"part must be one of Sizes, .* got 'Colours'"):
        notation_table("Colours")


def test_a_symbol_does_not_change_and_compares_by_value():
    assert hash(Symbol("Sizes", "n", "length")) == hash(Symbol("Sizes", "n", "length"))
    with pytest.raises(FrozenInstanceError):
        NOTATION[0].sign = "m"
