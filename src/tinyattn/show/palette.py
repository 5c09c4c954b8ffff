"""What the Mask Studio offers: atoms with their sliders, published models, and the masks of both.

All of them are computed here, by `tinyattn.patterns`; the page only joins and counts them. To
offer another model, add a line to PRESETS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from itertools import product
from math import isqrt

from tinyattn import patterns
from tinyattn.patterns import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Global,
    Painted,
    Pattern,
    Random,
    Strided,
    Window,
)
from tinyattn.patterns.base import Intersection, Union
from tinyattn.show.bitmaps import pack

SIZES = tuple(range(8, 65, 8))  # tokens that the slider offers
PIXELS = 8  # in a row of a picture
LARGEST = 128  # tokens that Python answers for in Jupyter


@dataclass(frozen=True)
class Atom:
    """A rule whose parameters have sliders."""

    key: str
    rule: type[Pattern]
    does: str  # what a query reads, in words
    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    start: tuple[int, ...] = ()
    drawn: bool = False  # for n tokens, which is its first parameter

    def pattern(self, values: Iterable[int], n: int) -> Pattern:
        return self.rule(n, *values) if self.drawn else self.rule(*values)

    def values(self, pattern: Pattern, n: int) -> tuple[int, ...] | None:
        """The parameters of a pattern of this kind, None if it is of another kind."""
        if type(pattern) is not self.rule:
            return None
        if self.drawn and n < max(next(iter(self.parameters.values()))):
            return None  # its slider would ask for more keys than there are
        values = tuple(getattr(pattern, name) for name in self.parameters)
        whole = all(isinstance(value, int) for value in values)
        return values if whole and self.pattern(values, n) == pattern else None

    def call(self) -> str:
        """Python for it, with {w} where a parameter stands."""
        return _call(
            self.rule.__name__,
            {"n": "{n}"} if self.drawn else {},
            {name: f"{{{name}}}" for name in self.parameters},
        )


ATOMS = (
    Atom("full", Full, "every key"),
    Atom("window", Window, "w keys on each side", {"w": tuple(range(17))}, (2,)),
    Atom(
        "dilated",
        Dilated,
        "every dilation-th key, w on each side",
        {"w": tuple(range(1, 9)), "dilation": tuple(range(2, 9))},
        (2, 3),
    ),
    Atom("strided", Strided, "every stride-th key", {"stride": tuple(range(2, 17))}, (4,)),
    Atom(
        "block",
        BlockLocal,
        "the keys of its own block",
        {"block_size": (*range(2, 9), 10, 12, 16, 24, 32)},
        (4,),
    ),
    Atom("global", Global, "the first g tokens, which read all", {"g": tuple(range(1, 9))}, (1,)),
    Atom(
        "random",
        Random,
        "r keys drawn once, from a seed",
        {"r": (1, 2, 3), "seed": (0, 1, 2)},
        (1, 0),
        drawn=True,
    ),
)


@dataclass(frozen=True)
class Preset:
    """A pattern with a name, for each n on which it has a meaning."""

    key: str
    label: str
    build: Callable[[int], tuple[Pattern, str]]  # the pattern for n tokens, and Python for it
    n: int | None = None  # a number of tokens that is offered for its sake

    def at(self, n: int) -> tuple[Pattern, str] | None:
        try:
            pattern, text = self.build(n)
            pattern.check(n)
        except ValueError:
            return None
        return pattern, text

    @classmethod
    def of(cls, key: str, pattern: Pattern) -> Preset:
        """The preset of a pattern that somebody wrote."""
        text = written(pattern)
        if text is None:
            return cls(key, repr(pattern), lambda size: (pattern, painted(pattern.mask(size))))
        return cls(key, text, lambda size: (pattern, text))


def _model(key: str, label: str, f: Callable[..., Pattern], arguments: Callable) -> Preset:
    """A function of `tinyattn.patterns`; `arguments(n)` are positional and named ones."""

    def build(n: int) -> tuple[Pattern, str]:
        positional, named = arguments(n)
        return f(**positional, **named), _call(f.__name__, positional, named)

    return Preset(key, label, build)


PRESETS = (
    Preset("full", "Full attention", lambda n: (Full(), "Full()")),
    Preset("causal", "Causal attention", lambda n: (Causal(), "Causal()")),
    _model("star_transformer", "Star-Transformer", patterns.star_transformer, lambda n: ({}, {})),
    _model("longformer", "Longformer", patterns.longformer, lambda n: ({}, {"w": 2, "g": 1})),
    _model("etc", "ETC", patterns.etc, lambda n: ({}, {"n_global": 3, "w": 1})),
    _model(
        "bigbird",
        "BigBird",
        patterns.bigbird,
        lambda n: ({"n": n}, {"block_size": max(1, n // 16), "r": 1, "seed": 0}),
    ),
    _model(
        "sparse_strided",
        "Sparse Transformer, strided",
        patterns.sparse_strided,
        lambda n: ({}, {"stride": near_root(n)}),
    ),
    _model(
        "sparse_fixed",
        "Sparse Transformer, fixed",
        patterns.sparse_fixed,
        lambda n: ({}, {"stride": near_root(n), "c": 1}),
    ),
    _model(
        "image_1d",
        "Image Transformer, 1-D, rows of 8 pixels",
        patterns.image_1d,
        lambda n: ({}, {"block_size": PIXELS, "memory": PIXELS // 2}),
    ),
    _model(
        "image_2d",
        "Image Transformer, 2-D, rows of 8 pixels",
        patterns.image_2d,
        lambda n: ({"height": -(-n // PIXELS), "width": PIXELS}, {"block": 4, "flange": 1}),
    ),
    Preset("axial", "Axial Transformer, rows of 8 pixels", lambda n: _axial()),
    Preset("bp_transformer", "BP-Transformer, 16 tokens and their spans", lambda n: _tree(n), n=31),
    Preset("matched_blocks", "Sparse Sinkhorn, sorted backwards", lambda n: _matched(n)),
)


def _axial() -> tuple[Pattern, str]:
    """Rows and columns of a picture: two layers of the model in one picture."""
    pattern = patterns.axial_rows(PIXELS) | patterns.axial_columns(PIXELS)
    return pattern, f"axial_rows({PIXELS}) | axial_columns({PIXELS})"


def _matched(n: int) -> tuple[Pattern, str]:
    """Blocks of four, each beside its mirror image: one hard permutation of many."""
    partners = tuple(reversed(range(-(-n // 4))))
    return patterns.MatchedBlocks(4, partners), f"MatchedBlocks(4, {partners})"


def _tree(n: int) -> tuple[Pattern, str]:
    """The tree whose nodes are as many as there are tokens: 2^L of them and 2^L - 1 spans."""
    if n < 3 or n & (n + 1):
        raise ValueError(f"a tree has 2^L tokens and 2^L - 1 spans, got n={n}")
    n_tokens = (n + 1) // 2
    return patterns.bp_transformer(n_tokens, k=1), f"bp_transformer({n_tokens}, k=1)"


def near_root(n: int) -> int:
    """√n rounded down, and 2 at least: the stride of the Sparse Transformer."""
    return max(2, isqrt(n))


def taken_apart(pattern: Pattern, n: int) -> tuple[dict[str, list[int]], bool] | None:
    """The atoms whose union a pattern is, and whether causal; None if it is no such union.

    Example:
        >>> taken_apart((Window(2) | Global(1)) & Causal(), 16)
        ({'window': [2], 'global': [1]}, True)
    """
    terms: dict[str, list[int]] = {}
    causals = set()
    for part in pattern.parts():
        causal = False
        if isinstance(part, Intersection) and Causal() in (part.left, part.right):
            part, causal = part.left if part.right == Causal() else part.right, True
        if part == Causal():
            part, causal = Full(), True
        causals.add(causal)
        found = [(atom.key, atom.values(part, n)) for atom in ATOMS]
        found = [(key, list(values)) for key, values in found if values is not None]
        if len(causals) > 1 or not found or terms.setdefault(*found[0]) != found[0][1]:
            return None
    in_order = {atom.key: terms[atom.key] for atom in ATOMS if atom.key in terms}
    return in_order, causals == {True}


def written(pattern: Pattern) -> str | None:
    """A pattern as Python, None if `tinyattn.patterns` has not all of its parts.

    Example:
        >>> written((Window(2) | Dilated(1, 4)) & Causal())
        '(Window(2) | Dilated(w=1, dilation=4)) & Causal()'
    """
    if isinstance(pattern, Union | Intersection):
        sides = []
        for side in (pattern.left, pattern.right):
            text = written(side)
            if text is None:
                return None
            closed = isinstance(pattern, Intersection) and isinstance(side, Union)
            sides.append(f"({text})" if closed else text)
        return (" | " if isinstance(pattern, Union) else " & ").join(sides)
    name = type(pattern).__name__
    if isinstance(pattern, Painted) or name not in patterns.__all__:
        return None
    named = {}
    for one in fields(pattern):
        value = getattr(pattern, one.name)
        if one.default is not MISSING and value == one.default:
            continue
        text = written(value) if isinstance(value, Pattern) else repr(value)
        if text is None:
            return None
        named[one.name] = text
    positional = {"n": named.pop("n")} if "n" in named else {}
    return _call(name, positional, named)


def painted(mask) -> str:
    """Python for a mask that no rule says: its rows, one digit a cell.

    Example:
        >>> import torch
        >>> painted(torch.eye(2, dtype=torch.bool))
        "Painted(torch.tensor([[int(c) for c in row] for row in '10 01'.split()]).bool())"
    """
    rows = " ".join("".join("01"[cell] for cell in row) for row in mask.int().tolist())
    return f"Painted(torch.tensor([[int(c) for c in row] for row in '{rows}'.split()]).bool())"


def _call(name: str, positional: dict[str, object], named: dict[str, object]) -> str:
    """Python that calls `name`; a single argument needs no name."""
    if not positional and len(named) == 1:
        positional, named = named, {}
    arguments = [*map(str, positional.values()), *(f"{k}={v}" for k, v in named.items())]
    return f"{name}({', '.join(arguments)})"


@lru_cache(maxsize=64)
def bitmaps(atom: Atom, choices: tuple[tuple[int, ...], ...], n: int) -> str:
    """Packed masks of an atom at every setting of its sliders, the last slider fastest."""
    masks = (atom.pattern(values, n).mask(n) for values in product(*choices))
    return " ".join(map(pack, masks))


def kit_for(
    sizes: tuple[int, ...],
    atoms: Iterable[str],
    presets: Iterable[Preset],
    terms: dict[str, list[int]],
) -> dict[str, object]:
    """Everything that the page chooses from, as JSON: `sizes`, `atoms`, `presets`, `causal`.

    The mask of a rule that does not depend on n is cropped from a larger one, so that one is
    enough; Random and the models that no union of atoms makes have one for each size.

    Args:
        sizes: numbers of tokens.
        atoms: keys of the atoms that get sliders.
        presets: what the menu offers.
        terms: values of atoms that must be on the sliders besides the usual ones.
    """
    side = max(sizes)
    choices = {
        atom.key: tuple(
            tuple(sorted({*usual, *terms.get(atom.key, usual)[k : k + 1]}))
            for k, usual in enumerate(atom.parameters.values())
        )
        for atom in ATOMS
        if atom.key in atoms or atom.key in terms
    }
    return {
        "sizes": list(sizes),
        "atoms": [_atom(atom, choices[atom.key], sizes) for atom in ATOMS if atom.key in choices],
        "presets": [_preset(preset, choices, sizes) for preset in presets],
        "causal": {str(side): pack(Causal().mask(side))},
    }


def _atom(
    atom: Atom, choices: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]
) -> dict[str, object]:
    # where keys are drawn, no more of them than there are tokens
    at = [n for n in sizes if n >= max(choices[0])] if atom.drawn else [max(sizes)]
    return {
        "key": atom.key,
        "name": atom.rule.__name__,
        "does": atom.does,
        "call": atom.call(),
        "parameters": list(atom.parameters),
        "choices": [list(values) for values in choices],
        "start": list(atom.start),
        "drawn": atom.drawn,
        "bitmaps": {str(n): bitmaps(atom, choices, n) for n in at},
    }


def _preset(
    preset: Preset, choices: dict[str, tuple[tuple[int, ...], ...]], sizes: tuple[int, ...]
) -> dict[str, object]:
    """A preset for the page: how it is written at each size, from which atoms, or its mask."""
    at, masks = {}, {}
    for n in sizes:
        built = preset.at(n)
        if built is None:
            continue
        pattern, text = built
        at[str(n)] = {"call": text}
        apart = taken_apart(pattern, n)
        if apart is not None and _on_sliders(apart[0], choices):
            at[str(n)] |= {"terms": apart[0], "causal": apart[1]}
        else:
            masks[str(n)] = pack(pattern.mask(n))
    return {"key": preset.key, "label": preset.label, "at": at, "bitmaps": masks}


def _on_sliders(terms: dict[str, list[int]], choices: dict[str, tuple[tuple[int, ...], ...]]):
    return all(
        key in choices and all(v in c for v, c in zip(values, choices[key], strict=True))
        for key, values in terms.items()
    )
