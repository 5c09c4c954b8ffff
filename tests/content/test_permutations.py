"""What a sort says when little is said of it, and the rule that follows from one."""

import math

import pytest
import torch

from tinyattn.content.permutations import matched_pattern, soft_permutation
from tinyattn.patterns import Causal, MatchedBlocks

from ..close import assert_same


def test_eight_rounds_at_three_quarters_are_the_standard():
    scores = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    s = [[math.exp(scores[i, j] / 0.75) for j in range(5)] for i in range(5)]
    for _ in range(8):
        columns = [sum(s[i][j] for i in range(5)) for j in range(5)]
        s = [[s[i][j] / columns[j] for j in range(5)] for i in range(5)]
        s = [[entry / sum(row) for entry in row] for row in s]
    assert_same(soft_permutation(scores), torch.tensor(s, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_that_is_sorted_to_nobody_reads_itself_alone(causal):
    sort = torch.tensor(
        [[0.0, 0.0, 0.0, 0.0], [0.9, 0.0, 0.1, 0.0], [0.2, 0.8, 0, 0], [0, 0, 0, 0]]
    )
    rule = MatchedBlocks(2, (0, 0, 1, 3))
    assert matched_pattern(sort, 2, causal=causal) == (rule & Causal() if causal else rule)


@pytest.mark.parametrize(("largest", "temperature"), [(3e38, 0.1), (9e4, 1e-35)])
def test_scores_that_overflow_over_the_temperature_are_refused(largest, temperature):
    scores = torch.tensor([[largest, 0.0], [0.0, 0.0]])
    assert soft_permutation(scores, temperature=1.0).isfinite().all()
    with pytest.raises(ValueError, match=r"over the temperature, .*, must be finite"):
        soft_permutation(scores, temperature=temperature)
