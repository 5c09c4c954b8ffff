"""Half of the heads on routing: what they cost, that their centroids learn, what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tinyattn.content import RoutingRouter
from tinyattn.experiments import characters, long_characters, records, routed_characters
from tinyattn.experiments.routed_characters import CONFIG
from tinyattn.transformer import RoPE

SMALL = replace(CONFIG, d_model=16, n_heads=4, n=24, batch_size=2, w=3, w_alone=7, n_clusters=3)
MIXED = "local and routing"


def routers(model):
    return [part for part in model.modules() if isinstance(part, RoutingRouter)]


def test_models_of_a_seed_start_with_the_same_parameters():
    models = [routed_characters.build(SMALL, name, 1) for name in routed_characters.rules(SMALL)]
    for model in models[1:]:
        pairs = zip(models[0].named_parameters(), model.named_parameters(), strict=True)
        assert all(name == other and torch.equal(x, y) for (name, x), (other, y) in pairs)


def test_each_layer_has_centroids_of_its_own_found_by_k_means_in_its_routing_heads():
    model = characters.build(SMALL, 0, RoPE, routed_characters.rules(SMALL)[MIXED])
    tokens = routed_characters.first_tokens(SMALL)
    assert tokens.shape == (routed_characters.DRAWN_TO_START, SMALL.n)
    layers = long_characters.heads(tokens, model)
    routed_characters.start_centroids(model, tokens)
    assert len(routers(model)) == len(layers) == SMALL.n_layers
    for router, (q, k, _) in zip(routers(model), layers, strict=True):
        alone = RoutingRouter(2, SMALL.n_clusters, 4)
        alone.initialise(q[:, 2:], k[:, 2:])
        assert torch.equal(router.centroids, alone.centroids)


def test_what_centroids_start_from_is_not_held_out():
    ids, kept, _ = characters.text()
    for row in routed_characters.first_tokens(SMALL):
        assert any(torch.equal(row, ids[block][: SMALL.n]) for block in kept)


def test_training_moves_the_centroids_of_every_layer():
    model = routed_characters.build(SMALL, MIXED, 0)
    before = [router.centroids.clone() for router in routers(model)]
    characters.fit(model, replace(SMALL, steps=1), 0)
    for router, old in zip(routers(model), before, strict=True):
        assert not torch.equal(router.centroids, old)


def keys_by_hand(model, tokens):
    """The mean over layers and heads: half of all products that a query takes part in."""
    costs, n = [], tokens.shape[1]
    for layer, (q, k, _) in zip(model.layers, long_characters.heads(tokens, model), strict=True):
        for head, rule in enumerate(layer.attention.pattern):
            products = 0
            if isinstance(rule, RoutingRouter):
                centroids = F.normalize(rule.centroids[head - 2], dim=-1)
                for row in range(len(tokens)):
                    asks = [int((centroids @ x).argmax()) for x in q[row, head]]
                    read = [int((centroids @ x).argmax()) for x in k[row, head]]
                    products += 2 * len(centroids) * n
                    products += 2 * sum(a == b for a in asks for b in read)
            else:
                products += len(tokens) * sum(2 * min(i + 1, SMALL.w + 1) for i in range(n))
            costs.append(products / 2 / tokens.numel())
    return sum(costs) / len(costs)


def test_the_cost_of_a_query_counts_whole_clusters_and_the_search_for_them():
    model, tokens = routed_characters.build(SMALL, MIXED, 0), long_characters.held_out(3, SMALL.n)
    by_hand = keys_by_hand(model, tokens)
    assert routed_characters.keys_per_query(model, tokens) == pytest.approx(by_hand)


@pytest.mark.parametrize(("name", "keys"), [("local", (36 + 16 * 8) / 24), ("dense", 25 / 2)])
def test_the_cost_of_a_pattern_is_its_edges(name, keys):
    model, tokens = routed_characters.build(SMALL, name, 0), long_characters.held_out(1, SMALL.n)
    assert routed_characters.keys_per_query(model, tokens) == pytest.approx(keys)


# ------------------------------------------------------------------------------ results/


def test_the_stored_runs_have_the_configuration_of_today():
    stored = records.load("routed_characters")
    assert stored["config"] == json.loads(json.dumps(CONFIG.__dict__))
    trained = [(run["heads"], run["seed"]) for run in stored["runs"]]
    assert trained == routed_characters.trainings(CONFIG)
    assert all(run["steps"] == CONFIG.steps for run in stored["runs"])


def test_local_heads_and_mixed_ones_cost_the_same():
    stored = records.load("routed_characters")
    ratio = routed_characters.cost_ratio(stored["runs"])
    assert abs(ratio - 1) <= stored["bar"] == routed_characters.BAR


@pytest.mark.parametrize("name", list(routed_characters.rules(CONFIG)))
def test_the_first_steps_of_a_stored_run_come_out_again(name):
    runs = records.load("routed_characters")["runs"]
    stored = next(run for run in runs if run["heads"] == name)
    # the learning rate still grows in these steps, so their number does not change them
    config = replace(CONFIG, steps=8)
    again = characters.fit(routed_characters.build(config, name, 0), config, 0)
    assert again == pytest.approx(stored["first_losses"][:8], rel=0.05)
