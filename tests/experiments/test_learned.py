"""Tasks for learned connections on inputs small enough to check, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.experiments import hidden_graph, moving_block, records


def test_each_symbol_has_to_name_the_one_at_its_place_in_the_needed_block():
    config = moving_block.MovingBlockConfig()
    tokens, needed, target = moving_block.draw(config, 3, torch.Generator().manual_seed(0))
    assert torch.equal(tokens[:, :, 0] - config.n_symbols, needed)
    assert torch.equal(needed.sort(dim=1).values, torch.arange(8).expand(3, 8))
    assert int(tokens[:, :, 1:].max()) < config.n_symbols
    for b, block, place in ((0, 1, 2), (2, 7, 7), (1, 0, 1)):
        assert target[b, block, place] == tokens[b, needed[b, block], place]


def test_the_fixed_rules_have_no_more_pairs_than_the_sorted_blocks():
    config = moving_block.MovingBlockConfig()
    n = config.n_blocks * config.block_size
    for rule in ("band", "blocks"):
        pattern = moving_block.build(config, 0, rule).attention.pattern
        assert 0.98 * 2 * n * config.block_size <= pattern.edges(n) <= 2 * n * config.block_size
    assert moving_block.build(config, 0, "dense").attention.pattern is None


def test_a_reader_whose_sort_is_right_recovers_every_block(monkeypatch):
    config = moving_block.MovingBlockConfig(n_test=5)
    model = moving_block.build(config, 0)
    _, needed, _ = moving_block.tested(config)
    right = torch.nn.functional.one_hot(needed, config.n_blocks).float()
    monkeypatch.setattr(model, "sort", lambda tokens: right)
    assert moving_block.recovered(model, config) == 1.0
    monkeypatch.setattr(model, "sort", lambda tokens: right.roll(1, dims=2))
    assert moving_block.recovered(model, config) == 0.0


def test_hidden_graphs_have_distinct_parents_that_are_others():
    config = hidden_graph.HiddenGraphConfig(n_parents=3)
    parents = hidden_graph.hidden_graphs(config, 4)
    assert parents.shape == (config.n_graphs, config.n, 3)
    assert (parents != torch.arange(config.n)[:, None]).all()
    assert all(len(set(row.tolist())) == 3 for row in parents.flatten(0, 1))
    assert not torch.equal(parents, hidden_graph.hidden_graphs(config, 5))


def test_a_token_has_to_say_which_symbols_stand_at_its_parents():
    config = hidden_graph.HiddenGraphConfig()
    parents = hidden_graph.hidden_graphs(config, 0)
    generator = torch.Generator().manual_seed(0)
    symbols, graph, target = hidden_graph.draw(config, parents, 4, generator)
    for b, i in ((0, 0), (1, 5), (3, config.n - 1)):
        there = {int(symbols[b, j]) for j in parents[graph[b], i]}
        assert set(target[b, i].nonzero().flatten().tolist()) == there


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_fixed_graphs_keep_the_budget_of_the_learned_one(budget):
    config = hidden_graph.HiddenGraphConfig(edges_per_token=budget)
    for rule in ("random", "band"):
        mask = hidden_graph.build(config, 0, rule).attention.pattern.mask(config.n)
        assert (mask.sum(dim=1) <= budget + 1).all()
        assert mask.sum(dim=1).max() == budget + 1
        assert mask.diagonal().all()
    router = hidden_graph.build(config, 0).attention.pattern
    assert router.edges_per_token == budget


def test_all_edges_recover_the_hidden_ones_and_no_edges_none():
    config = hidden_graph.HiddenGraphConfig(n=6, edges_per_token=5, n_test=4)
    assert hidden_graph.scores(hidden_graph.build(config, 0), config, 0)["recovered"] == 1.0
    none = replace(config, edges_per_token=0)
    assert hidden_graph.scores(hidden_graph.build(none, 0), none, 0)["recovered"] == 0.0


def test_rewards_to_go_change_the_training():
    config = hidden_graph.HiddenGraphConfig(n=5, batch_size=4, steps=25)
    runs = [
        hidden_graph.fit(hidden_graph.build(c, 0), c, 0)
        for c in (config, replace(config, to_go=True), replace(config, entropy=0.0))
    ]
    assert len({tuple(run) for run in runs}) == 3


@pytest.mark.parametrize("module", [moving_block, hidden_graph])
def test_learned_connections_were_trained_with_the_configuration_of_today(module):
    name = module.__name__.split(".")[-1]
    stored = records.load(name)
    kind = {"moving_block": "MovingBlockConfig", "hidden_graph": "HiddenGraphConfig"}[name]
    config = getattr(module, kind)()
    assert stored["config"] == json.loads(json.dumps(config.__dict__))
    assert {run["rule"] for run in stored["runs"]} == set(module.RULES)
    assert all(run["steps"] == config.steps for run in stored["runs"])


def test_the_bars_hold_for_learned_connections():
    runs = records.load("moving_block")["runs"]
    reached = {
        rule: [run["scores"]["accuracy"] for run in runs if run["rule"] == rule]
        for rule in ("sinkhorn", "band", "blocks")
    }
    assert len(reached["sinkhorn"]) == len(reached["band"]) == 3
    ahead = min(reached["sinkhorn"]) - max(reached["band"] + reached["blocks"])
    assert ahead >= moving_block.BAR
    stored = records.load("hidden_graph")
    seeds = [
        run
        for run in stored["runs"]
        if run["rule"] == "sac" and not run["to_go"] and run["entropy"]
        if run["edges_per_token"] == stored["config"]["edges_per_token"]
    ]
    assert [run["seed"] for run in seeds] == [0, 1, 2]
    assert min(run["scores"]["recovered"] for run in seeds) >= hidden_graph.BAR


@pytest.mark.parametrize("module", [moving_block, hidden_graph])
def test_the_first_steps_of_learned_connections_come_out_again(module):
    name = module.__name__.split(".")[-1]
    kind = {"moving_block": "MovingBlockConfig", "hidden_graph": "HiddenGraphConfig"}[name]
    config = getattr(module, kind)()
    stored = records.load(name)["runs"][1]
    # the learning rate still grows in these steps, so their number does not change them
    fewer = replace(config, steps=21)
    again = module.fit(module.build(fewer, 1), fewer, 1)[:8]
    # a draw that falls the other way, for a last digit, moves the policy's part of the loss
    assert again == pytest.approx(stored["first_losses"][:8], rel=0.05, abs=0.3)
