"""Who belongs to a centroid, by loops over all pairs of a centroid and a token."""

import math

import pytest
import torch

from tinyattn.content.membership import chosen, largest, nearest


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a, b):
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


SIZES = [(1, 1, 1, 1, 1), (2, 3, 7, 4, 3), (3, 2, 11, 2, 5), (1, 2, 40, 6, 4)]


@pytest.mark.parametrize(("b", "h", "n", "n_clusters", "d_head"), SIZES)
def test_a_token_goes_to_the_centroid_at_the_smallest_angle(b, h, n, n_clusters, d_head):
    x, centroids = randn(b, h, n, d_head), 3 * randn(h, n_clusters, d_head, seed=1)
    found = nearest(x, centroids)
    assert found.shape == (b, h, n)
    for s in range(b):
        for t in range(h):
            for i in range(n):
                angles = [cosine(c, x[s, t, i]) for c in centroids[t]]
                assert found[s, t, i] == angles.index(max(angles))


def test_of_equal_centroids_the_first_is_taken():
    x = randn(1, 1, 5, 2)
    one = randn(1, 1, 2, seed=1)
    assert nearest(x, torch.cat([one, 2 * one, one], dim=1)).eq(0).all()


@pytest.mark.parametrize(("b", "h", "n", "n_clusters", "d_head"), SIZES)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_centroid_takes_the_tokens_at_the_smallest_angles(b, h, n, n_clusters, d_head, share):
    x, centroids = (
        randn(b, h, n, d_head) * torch.arange(1.0, n + 1)[:, None],
        randn(h, n_clusters, d_head, seed=1),
    )
    size = max(1, round(share * n))
    found = chosen(x, centroids, size)
    assert found.shape == (b, h, n_clusters, size)
    for s in range(b):
        for t in range(h):
            for c in range(n_clusters):
                order = sorted(range(n), key=lambda i: -cosine(centroids[t, c], x[s, t, i]))
                assert sorted(found[s, t, c].tolist()) == sorted(order[:size])


def test_padding_comes_in_where_its_own_sequence_has_too_few_real_tokens():
    x, centroids = randn(3, 2, 6, 4), randn(2, 3, 4, seed=1)
    real = torch.ones(3, 6, dtype=torch.bool)
    real[1, 4:], real[2, 1:] = False, False
    found = chosen(x, centroids, 3, key_padding=real)
    assert torch.equal(found[0], chosen(x, centroids, 3)[0])
    assert torch.equal(found[1].sort().values, chosen(x[1:2, :, :4], centroids, 3)[0].sort().values)
    assert (found[2] == 0).any(dim=-1).all()  # the only real one is always taken
    assert all(len(set(row)) == 3 for row in found.flatten(0, 2).tolist())


@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_a_token_of_length_zero_is_at_no_angle_and_breaks_nothing(kind):
    x = torch.zeros(1, 1, 3, 2, dtype=kind)
    x[0, 0, 1, 0] = 1.0
    centroids = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]], dtype=kind)
    assert chosen(x, centroids, 1)[0, 0, 0].item() == 1
    assert sorted(chosen(x, centroids, 2)[0, 0, 1].tolist()) == [0, 2]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("n", [10, 64, 100, 257])
def test_the_largest_of_a_row_are_found_whatever_strands_they_lie_in(n, size):
    for x in (randn(4, n), torch.arange(n).double().expand(2, n), -torch.arange(n).double()[None]):
        found = largest(x, size).sort().values
        assert torch.equal(found, x.topk(size).indices.sort().values)


def test_the_search_goes_through_about_a_root_of_the_numbers(monkeypatch):
    searched = []
    topk = torch.Tensor.topk

    def counted(x, *args, **options):
        searched.append(x.shape[-1])
        return topk(x, *args, **options)

    monkeypatch.setattr(torch.Tensor, "topk", counted)
    largest(randn(2, 4096), 4)
    assert searched == [4096 // 32, 32 * 4]  # strands of √(4096 / 4) = 32 numbers


@pytest.mark.parametrize("n", [21, 25, 31, 33, 65, 100])
@pytest.mark.parametrize("n_real", [0, 1, 3, 7])
def test_no_place_beyond_the_row_is_chosen_where_real_tokens_run_out(n, n_real):
    x = randn(3, n)
    x[:, n_real:] = -math.inf
    for size in (1, 3, 5, 8):
        found = largest(x, size)
        for row in found.tolist():
            assert max(row) < n
            assert len(set(row)) == size
            assert sum(at < n_real for at in row) == min(n_real, size)


def test_centroids_are_one_or_more_for_each_head_and_no_more_tokens_are_chosen_than_there_are(
    refusals,
):
    x, centroids = randn(1, 2, 6, 3), randn(2, 4, 3, seed=1)
    for wrong in (randn(4, 4, 3), randn(2, 4, 2), randn(2, 0, 3)):
        with pytest.raises(ValueError, match="centroids must be"):
            nearest(x, wrong)
        with pytest.raises(ValueError, match="centroids must be"):
            chosen(x, wrong, 1)
    with pytest.raises(ValueError, match=r"centroids \(h, n_clusters, d_head\), got"):
        nearest(x[0], centroids)
    for size in (-1, 7):
        with pytest.raises(ValueError, match=f"size must be in 0 … 6, .* got {size}"):
            chosen(x, centroids, size)
    with pytest.raises(ValueError, match="key_padding must have one entry for each token"):
        chosen(x, centroids, 1, key_padding=torch.ones(2, 6, dtype=torch.bool))
