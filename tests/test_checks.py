"""What passes for a whole number, and what comes of it."""

import re

import numpy as np
import pytest
import torch

from tinyattn.checks import check_tokens, whole_numbers, whole_seed
from tinyattn.content import LSHRouter, RoutingRouter, SACRouter, SinkhornRouter
from tinyattn.patterns import Random


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint32(3), np.int64(3)])
def test_integers_of_any_kind_become_those_of_python(value):
    assert [type(x) for x in whole_numbers(n=value)] == [int]
    assert whole_numbers(n=value, w=-4) == (3, -4)


@pytest.mark.parametrize("value", [2.0, True, "2", None, np.bool_(True), torch.tensor(2), [2]])
def test_what_is_no_whole_number_is_refused_by_its_name(value):
    with pytest.raises(TypeError, match=f"w must be a whole number, got {re.escape(repr(value))}"):
        whole_numbers(n=1, w=value)


def test_a_seed_has_64_bits():
    for seed in (0, -(2**63), 2**64 - 1, np.uint64(2**64 - 1)):
        assert whole_seed(seed) == int(seed)
        torch.Generator().manual_seed(whole_seed(seed))
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match=f"seed must be from .* got {seed}"):
            whole_seed(seed)
    with pytest.raises(TypeError, match=r"seed must be a whole number, got 1\.0"):
        whole_seed(1.0)


def test_what_takes_a_seed_refuses_at_once_one_that_is_too_long_and_draws_from_all_others():
    q, k, v = torch.randn(3, 1, 2, 6, 4)
    makers = {
        "random": lambda seed: Random(6, 2, seed=seed),
        "lsh": lambda seed: LSHRouter(4, seed=seed),
        "routing": lambda seed: RoutingRouter(2, 3, 4, seed=seed),
        "sac": lambda seed: SACRouter(2, 4, edges_per_token=1, seed=seed),
        "sinkhorn": lambda seed: SinkhornRouter(2, 4, block_size=2, n_blocks=3, seed=seed),
    }
    for made in makers.values():
        with pytest.raises(ValueError, match="seed must be from"):
            made(2**64)
        for seed in (2**63, -(2**62)):
            drawn = made(seed)
            if isinstance(drawn, Random):
                assert drawn.mask(6).sum() == 12
            else:
                assert drawn.train().attend(q, k, v).isfinite().all()


@pytest.mark.parametrize("shape", [(2, 8), (1, 2, 4), (1, 2, 9), (1, 2, 3, 8)])
def test_what_are_no_token_vectors_is_refused(shape):
    got = re.escape(str(shape))
    with pytest.raises(ValueError, match=rf"e must be \(b, n, d_model=8\), got {got}"):
        check_tokens(torch.zeros(shape), 8, name="e")
    with pytest.raises(TypeError, match="x must be a tensor, got list"):
        check_tokens([[1.0]], 8)
