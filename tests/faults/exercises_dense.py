"""Faults to plant in the exercises of Part I."""

from tests.faults.fault import Fault

CHECKS = "exercises/test_checks.py::"
NOTHING = CHECKS + "test_a_wrong_answer_earns_nothing_on_other_inputs"
RIGHT = CHECKS + "test_a_right_answer_is_accepted_on_seen_and_hidden_inputs"
PARTS = "exercises/test_parts.py::test_"

FAULTS = [
    Fault(
        "of a dict any wrong part is named, the last before the first",
        "exercises/base.py",
        "for key, value in wanted.items():\n        verdict",
        "for key, value in reversed(wanted.items()):\n        verdict",
        PARTS + "the_first_wrong_part_in_the_order_of_the_work_is_named",
    ),
    Fault(
        "a missing part of a dict is a mistake",
        "exercises/base.py",
        'return verdict if verdict.state == "open" else wrong(f"{key}: {verdict.says}")',
        'return wrong(f"{key}: {verdict.says}")',
        PARTS + "a_part_that_is_missing_is_no_mistake",
    ),
    Fault(
        "influences of both signs cancel where readers are examined",
        "exercises/transformer.py",
        "return jacobian.abs().amax(dim=(1, 3)) > 0",
        "return jacobian.sum(dim=(1, 3)).abs() > 1e-5",
        RIGHT + "[transformer/hears-0]",
    ),
    Fault(
        "positions are moved in the wrong direction",
        "exercises/transformer.py",
        "blocks = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles]",
        "blocks = [torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angles]",
        RIGHT + "[transformer/move-1]",
    ),
    Fault(
        "padding counts as a question",
        "exercises/usage.py",
        "return bits[real[:, said]]",
        "return bits[torch.ones_like(real)[:, said]]",
        RIGHT + "[usage/bits-0]",
    ),
    Fault(
        "a factor by which greedy loses is measured against itself",
        "exercises/usage.py",
        "factor = float(pairs.max() / pairs[start].max())",
        "factor = float(pairs.max() / pairs.min())",
        NOTHING + "[usage/greedy-1.20 times as probable-1]",
    ),
    Fault(
        "a block is touched by its diagonal only",
        "exercises/complexity.py",
        "touched = answer.reshape(N // BLOCK, BLOCK, N // BLOCK, BLOCK).any(3).any(1)",
        "touched = answer.reshape(N // BLOCK, BLOCK, N // BLOCK, BLOCK).any(3).all(1)",
        RIGHT + "[complexity/blocks-0]",
    ),
    Fault(
        "the shorter texts at which attention overtakes are skipped",
        "exercises/complexity.py",
        "while 4 * n * d_model**2 + 2 * n**2 * d_model < 2 * n * d_model * d_ff:",
        "while 4 * n * d_model**2 + 2 * n**2 * d_model <= 2 * n * d_model * d_ff:",
        RIGHT + "[complexity/crossover-1]",
    ),
    Fault(
        "dilations grow by two, whatever the width",
        "exercises/comparison.py",
        "dilated, sees, dilation = dilated + 1, sees + (width - 1) * dilation, dilation * width",
        "dilated, sees, dilation = dilated + 1, sees + (width - 1) * dilation, dilation * 2",
        RIGHT + "[comparison/stacks-0]",
    ),
    Fault(
        "edges lead from keys to queries",
        "exercises/comparison.py",
        "mask[edges[:, 0], edges[:, 1]] = True",
        "mask[edges[:, 1], edges[:, 0]] = True",
        RIGHT + "[comparison/messages-0]",
    ),
    Fault(
        "heads take turns with the shared ones",
        "exercises/taxonomy.py",
        "return attention(q, k.repeat_interleave(n_shared, 0), v.repeat_interleave(n_shared, 0))",
        "return attention(q, k.repeat(n_shared, 1, 1), v.repeat(n_shared, 1, 1))",
        RIGHT + "[taxonomy/grouped-0]",
    ),
    Fault(
        "keys that linear attention tells apart pass for blurred",
        "exercises/taxonomy.py",
        "if not soft <= SOFT:",
        "if soft > 2 * SOFT:",
        NOTHING + "[taxonomy/needle-linear attention gives key 0-1]",
    ),
]
