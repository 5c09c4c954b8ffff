"""Faults to plant in the comparison of routing heads with local ones, and in what they cost."""

from tests.faults.fault import Fault

FILE = "experiments/routed_characters.py"
TEST = "experiments/test_routed_characters.py::"
COST = TEST + "test_the_cost_of_a_query_counts_whole_clusters_and_the_search_for_them"

FAULTS = [
    Fault(
        "finding the clusters costs nothing",
        FILE,
        "pairs / n + router.centroids.shape[1]",
        "pairs / n",
        COST,
    ),
    Fault(
        "queries are counted where keys should be",
        FILE,
        "counts[0] * counts[1]",
        "counts[0] * counts[0]",
        COST,
    ),
    Fault(
        "centroids of routing heads are looked for among local ones",
        FILE,
        "router.initialise(q[:, own], k[:, own])",
        "router.initialise(q[:, : len(own)], k[:, : len(own)])",
        TEST + "test_each_layer_has_centroids_of_its_own_found_by_k_means_in_its_routing_heads",
    ),
    Fault(
        "routers do not learn while characters are trained",
        "experiments/characters.py",
        "after_step=lambda: update_routers(model)",
        "after_step=None",
        TEST + "test_training_moves_the_centroids_of_every_layer",
    ),
]
