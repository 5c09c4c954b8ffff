"""Patterns: rules that say which keys a query may read."""

from tinyattn.patterns.base import Pattern, PerHead
from tinyattn.patterns.flex import mask_mod
from tinyattn.patterns.global_tokens import Global
from tinyattn.patterns.grid import (
    axial_columns,
    axial_rows,
    generation_order,
    image_1d,
    image_2d,
)
from tinyattn.patterns.matched import MatchedBlocks
from tinyattn.patterns.named import (
    bigbird,
    etc,
    longformer,
    sparse_fixed,
    sparse_fixed_factors,
    sparse_strided,
    sparse_strided_factors,
    star_transformer,
)
from tinyattn.patterns.painted import Painted
from tinyattn.patterns.positional import (
    BlockLocal,
    Causal,
    Dilated,
    Full,
    Strided,
    Window,
    radius_from_window,
)
from tinyattn.patterns.random import Random
from tinyattn.patterns.tree import bp_transformer

__all__ = [
    "BlockLocal",
    "Causal",
    "Dilated",
    "Full",
    "Global",
    "MatchedBlocks",
    "Painted",
    "Pattern",
    "PerHead",
    "Random",
    "Strided",
    "Window",
    "axial_columns",
    "axial_rows",
    "bigbird",
    "bp_transformer",
    "etc",
    "generation_order",
    "image_1d",
    "image_2d",
    "longformer",
    "mask_mod",
    "radius_from_window",
    "sparse_fixed",
    "sparse_fixed_factors",
    "sparse_strided",
    "sparse_strided_factors",
    "star_transformer",
]
