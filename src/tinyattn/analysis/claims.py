"""What the book says about growth, as claims that can be counted again."""

from __future__ import annotations

from tinyattn.analysis.complexity import (
    attention_cost,
    attention_flops,
    computed_pairs,
    core_cost,
    encoder_layer_cost,
    ffn_cost,
    ffn_flops,
    kept_pairs,
)
from tinyattn.analysis.ledger import Claim
from tinyattn.patterns import Window

WIDTH = 64  # d_model where n grows
LENGTH = 16  # n where d_model grows
LONG = (2**12, 2**13, 2**14, 2**15)  # where pairs are counted one block after the other


def complexity_claims() -> list[Claim]:
    """Those of the chapter on complexity: table 1, what it leaves out, and memory.

    Example:
        >>> all(claim.holds for claim in complexity_claims())
        True
    """
    count, where = Claim.of_count, {"where": "04_complexity"}
    in_width = {"of": "d_model", **where}
    return [
        count("core of attention, operations", 2, lambda n: core_cost(n, 1, WIDTH).flops, **where),
        count("attention layer, operations", 2, lambda n: attention_flops(n, WIDTH), **where),
        count("feed-forward layer, operations", 1, lambda n: ffn_flops(n, WIDTH), **where),
        count("encoder layer, operations", 2, lambda n: encoder_layer_cost(n, WIDTH).flops, **where),
        count("core of attention, by width", 1, lambda d: core_cost(LENGTH, 1, d).flops, **in_width),
        count("attention layer, by width", 2, lambda d: attention_flops(LENGTH, d), **in_width),
        count("feed-forward layer, by width", 2, lambda d: ffn_flops(LENGTH, d), **in_width),
        count("attention layer, parameters", 2, lambda d: attention_cost(1, d).parameters, **in_width),
        count("feed-forward layer, parameters", 2, lambda d: ffn_cost(1, d).parameters, **in_width),
        count("attention layer, parameters by length", 0, lambda n: attention_cost(n, 8).parameters, **where),
        count("attention layer, values kept", 2, lambda n: attention_cost(n, WIDTH).activations, **where),
        count("the same, fused", 1, lambda n: attention_cost(n, WIDTH, fused=True).activations, **where),
        count("pairs of a window, kept", 1, lambda n: kept_pairs(Window(16), n), LONG, **where),
        count("pairs of a window, computed", 1, lambda n: computed_pairs(Window(16), n), LONG, **where),
    ]  # fmt: skip
