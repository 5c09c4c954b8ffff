"""Angular hashing obeys its collision laws, and nothing but the vector decides about its bucket."""

import math

import numpy as np
import pytest
import torch

from tinyattn.content.hashing import bucket_factors, first_largest, lsh_buckets

from ..transformer.tiny import randn


def collisions(angle, n_buckets, *, d_head=8, n_hashes=20_000):
    """Share of rounds in which two vectors at this angle fall into one bucket."""
    pair = torch.zeros(1, 1, 2, d_head)
    pair[..., 0, 0] = 1
    pair[..., 1, 0], pair[..., 1, 1] = math.cos(angle), math.sin(angle)
    buckets = lsh_buckets(pair, n_buckets=n_buckets, n_hashes=n_hashes, seed=3)[0, 0]
    return float((buckets[:, 0] == buckets[:, 1]).double().mean())


@pytest.mark.parametrize("angle", [0.2, math.pi / 4, 1.3, math.pi / 2, 2.5])
def test_two_and_four_buckets_collide_as_the_angle_says(angle):
    share = 1 - angle / math.pi
    assert collisions(angle, 2) == pytest.approx(share, abs=0.015)
    assert collisions(angle, 4) == pytest.approx(share**2, abs=0.015)


@pytest.mark.parametrize(("n_buckets", "share"), [(6, 0.494), (8, 0.452), (16, 0.370)])
def test_more_buckets_collide_less(n_buckets, share):
    assert collisions(math.pi / 4, n_buckets) == pytest.approx(share, abs=0.015)
    assert collisions(math.pi / 2, n_buckets) == pytest.approx(1 / n_buckets, abs=0.01)
    assert collisions(0.0, n_buckets) == 1
    assert collisions(math.pi, n_buckets) == 0


def test_factors_multiply_collision_probabilities():
    assert bucket_factors(32, d_head=2) == (2, 4, 4)
    expected = (1 - 0.5 / math.pi) ** 5  # one, two and two halvings
    assert collisions(0.5, 32, d_head=2) == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("n_buckets", [1, 2, 6, 10, 64])
def test_a_bucket_is_the_end_of_an_axis_that_points_nearest(n_buckets):
    x = randn(2, 3, 50, 32)
    buckets = lsh_buckets(x, n_buckets=n_buckets, n_hashes=2, seed=5)
    rng = torch.Generator().manual_seed(5)
    for hashing in range(2):
        if n_buckets == 1:
            assert (buckets == 0).all()
            continue
        axes = torch.randn(n_buckets // 2, 32, generator=rng, dtype=torch.float64)
        along = x @ axes.T
        expected = torch.cat([along, -along], dim=-1).argmax(dim=-1)
        assert torch.equal(buckets[:, :, hashing], expected)


def test_lengths_do_not_matter_and_opposites_lie_half_way_round():
    x = randn(1, 2, 40, 8)
    for n_buckets in (2, 6, 16):
        near = lsh_buckets(x, n_buckets=n_buckets, n_hashes=3)
        far = lsh_buckets(-x, n_buckets=n_buckets, n_hashes=3)
        assert torch.equal(near, lsh_buckets(7.3 * x, n_buckets=n_buckets, n_hashes=3))
        assert torch.equal(far, (near + n_buckets // 2) % n_buckets)


def test_the_first_rounds_of_more_are_the_rounds_of_fewer():
    x = randn(2, 2, 30, 4)
    many = lsh_buckets(x, n_buckets=32, n_hashes=8, seed=1)
    assert many.shape == (2, 2, 8, 30)
    assert torch.equal(many[:, :, :3], lsh_buckets(x, n_buckets=32, n_hashes=3, seed=1))
    assert not torch.equal(many, lsh_buckets(x, n_buckets=32, n_hashes=8, seed=2))


def test_a_vector_has_the_same_bucket_in_any_company():
    x = randn(2, 3, 5000, 8)  # more than are hashed at a time
    buckets = lsh_buckets(x, n_buckets=16, n_hashes=4)
    assert torch.equal(
        lsh_buckets(x[1:, 2:, 4990:], n_buckets=16, n_hashes=4), buckets[1:, 2:, :, 4990:]
    )
    order = torch.randperm(5000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(lsh_buckets(x[:, :, order], n_buckets=16, n_hashes=4), buckets[..., order])
    assert buckets.flatten().unique().tolist() == list(range(16))


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    lsh_buckets(randn(1, 1, 9, 4), n_buckets=4, n_hashes=2, seed=9)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_is_hashed_in_single():
    x = randn(1, 2, 50, 8).bfloat16()
    ours = lsh_buckets(x, n_buckets=8, n_hashes=4)
    assert torch.equal(ours, lsh_buckets(x.float(), n_buckets=8, n_hashes=4))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ours, lsh_buckets(x.float(), n_buckets=8, n_hashes=4))


def test_ties_go_to_the_first_and_zeros_to_some_bucket():
    x = torch.tensor([[[1.0], [3.0], [3.0], [2.0]], [[0.0], [0.0], [0.0], [0.0]]])
    assert first_largest(x.clone()).tolist() == [[1], [0]]
    assert lsh_buckets(torch.zeros(1, 1, 3, 4), n_buckets=8).tolist() == [[[[0, 0, 0]]]]
    assert lsh_buckets(torch.zeros(1, 2, 0, 4), n_buckets=8, n_hashes=3).shape == (1, 2, 3, 0)


@pytest.mark.parametrize("d_head", [8, 64])
@pytest.mark.parametrize("n_buckets", [2, 12, 64, 256, 4096])
def test_factors_are_even_small_and_multiply_to_the_number(n_buckets, d_head):
    factors = bucket_factors(n_buckets, d_head)
    assert math.prod(factors) == n_buckets
    assert all(f % 2 == 0 and f <= 2 * d_head for f in factors)


def test_products_for_a_hash_stop_growing_with_the_number_of_buckets():
    """One rotation would take n_buckets / 2 of them, and n_buckets grows with n."""
    products = [sum(bucket_factors(n // 32, 64)) // 2 for n in (4096, 16_384, 65_536, 2**20)]
    assert products == [64, 24, 48, 48]


def test_what_cannot_be_hashed_is_refused(refusals):
    x = randn(1, 1, 5, 4)
    with pytest.raises(ValueError, match=r"n_buckets must be even .* got 3"):
        lsh_buckets(x, n_buckets=3)
    with pytest.raises(ValueError, match=r"even numbers of at most 2 \* d_head = 8"):
        lsh_buckets(x, n_buckets=22)
    with pytest.raises(ValueError, match="n_hashes must be 1 round or more, got 0"):
        lsh_buckets(x, n_buckets=2, n_hashes=0)
    with pytest.raises(TypeError, match="n_buckets must be a whole number"):
        lsh_buckets(x, n_buckets=2.0)


@pytest.mark.parametrize("n_buckets", [16, 36, 64])
def test_a_bucket_of_several_factors_counts_the_ends_of_each(n_buckets):
    x, rng = randn(1, 1, 200, 4), torch.Generator().manual_seed(3)
    expected = torch.zeros(200, dtype=torch.long)
    for factor in bucket_factors(n_buckets, d_head=4):
        axes = torch.randn(factor // 2, 4, generator=rng, dtype=torch.float64)
        along = x[0, 0] @ axes.T
        ends = torch.cat([along, -along], dim=-1).argmax(dim=-1)
        expected = expected * factor + ends
    buckets = lsh_buckets(x, n_buckets=n_buckets, seed=3)
    assert torch.equal(buckets[0, 0, 0], expected)
    assert len(bucket_factors(n_buckets, d_head=4)) > 1


def test_factors_are_found_wherever_there_are_some():
    def even_products(most, number):
        return number <= most or any(
            even_products(most, number // first)
            for first in range(2, most + 1, 2)
            if number % (2 * first) == 0
        )

    for d_head in (1, 2, 3, 4, 8):
        for number in range(2, 600, 2):
            if even_products(2 * d_head, number):
                factors = bucket_factors(number, d_head)
                assert math.prod(factors) == number
                assert all(f % 2 == 0 and f <= 2 * d_head for f in factors)
            else:
                with pytest.raises(ValueError, match=f"such as a power of two, got {number}"):
                    bucket_factors(number, d_head)


@pytest.mark.parametrize("integer", [np.int64, np.int8, np.uint32])
def test_numpys_integers_hash_as_pythons(integer, refusals):
    x = torch.randn(1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    numbers = {"n_buckets": 4, "n_hashes": 2, "seed": 3}
    expected = lsh_buckets(x, **numbers)
    assert torch.equal(lsh_buckets(x, **{k: integer(n) for k, n in numbers.items()}), expected)


def test_autocast_changes_no_bucket():
    x = torch.randn(1, 2, 400, 8, generator=torch.Generator().manual_seed(1))
    expected = lsh_buckets(x.double(), n_buckets=16, n_hashes=2)  # which autocast leaves alone
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(lsh_buckets(x, n_buckets=16, n_hashes=2), expected)


def test_vectors_of_no_numbers_fall_into_no_bucket():
    for d_head in (0, -1):
        with pytest.raises(ValueError, match=f"d_head must be 1 or more, got {d_head}"):
            bucket_factors(2, d_head)
    with pytest.raises(ValueError, match="d_head must be 1 or more, got 0"):
        lsh_buckets(torch.zeros(1, 1, 3, 0), n_buckets=4)
