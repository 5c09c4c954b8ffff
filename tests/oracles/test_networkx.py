"""Hops, parts and walks against networkx."""

import numpy as np
import pytest
import torch

from tinyattn.analysis import max_path_length, n_components, path_lengths, spectral_gap
from tinyattn.patterns import Random, Window

from ..patterns import by_hand

nx = pytest.importorskip("networkx", reason="networkx is in requirements-oracles.txt")

PUBLIC = by_hand.public(41)
EVERY = pytest.mark.parametrize("rule", PUBLIC.values(), ids=PUBLIC)


def graph(rule, n):
    """An edge from each query to every key that it reads."""
    return nx.from_numpy_array(rule.mask(n).numpy().astype(int), create_using=nx.DiGraph)


@EVERY
def test_path_lengths_are_those_of_breadth_first_search(rule):
    expected = torch.full((41, 41), torch.inf)
    for i, lengths in nx.all_pairs_shortest_path_length(graph(rule, 41)):
        for j, length in lengths.items():
            expected[i, j] = length
    assert torch.equal(path_lengths(rule.pattern, 41), expected)


@EVERY
def test_parts_are_the_weakly_connected_components(rule):
    assert n_components(rule.pattern, 41) == nx.number_weakly_connected_components(graph(rule, 41))


@EVERY
def test_the_longest_path_is_the_diameter_where_there_is_one(rule):
    theirs = graph(rule, 41)
    if nx.is_strongly_connected(theirs):
        assert max_path_length(rule.pattern, 41) == nx.diameter(theirs)
    else:
        assert max_path_length(rule.pattern, 41) == float("inf")


@pytest.mark.parametrize("pattern", [Window(1), Window(3), Random(24, 3, seed=0)])
def test_the_gap_of_an_undirected_graph_is_that_of_its_normalised_laplacian(pattern):
    # 1 - λ are the eigenvalues of the walk, which has those of the symmetric matrix
    mask = pattern.mask(24)
    mask = mask | mask.T
    theirs = nx.from_numpy_array(mask.numpy().astype(float))
    sizes = np.sort(np.abs(1 - nx.normalized_laplacian_spectrum(theirs)))
    assert spectral_gap(mask) == pytest.approx(1 - sizes[-2], abs=1e-9)
