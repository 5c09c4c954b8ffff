"""The longer model, and that its heads' q, k and v are all that its attention depends on."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn import attention, attention_weights
from tinyattn.experiments import characters, long_characters, records
from tinyattn.experiments.characters import CharactersConfig
from tinyattn.patterns import Causal
from tinyattn.transformer.generate import evaluating

from ..close import assert_same

SMALL = CharactersConfig(d_model=8, n_heads=2, n_layers=2)


def test_heads_give_the_weights_and_outputs_of_each_layer():
    model = long_characters.build(SMALL, 1).double()
    tokens = long_characters.held_out(2, n=37)
    inputs, outputs = [], []

    def keep(layer, args, out):
        inputs.append(args[0])
        outputs.append(out)

    for layer in model.layers:
        layer.attention.register_forward_hook(keep)
    with evaluating(model):
        model(tokens)
        heads = long_characters.heads(tokens, model)
        for layer, (q, k, v), x, out in zip(
            model.layers, heads, inputs[:2], outputs[:2], strict=True
        ):
            assert q.shape == k.shape == v.shape == (2, 2, 37, 4)
            mask = Causal().mask(37)
            weights = layer.attention(x, return_weights=True)[1]
            assert_same(attention_weights(q, k, mask), weights)
            assert_same(layer.attention.join_heads(attention(q, k, v, mask)), out)


def test_a_model_whose_scores_are_more_than_products_is_refused():
    with pytest.raises(ValueError, match="more than q·k: its positions add to them, got T5Bias"):
        long_characters.heads(long_characters.held_out(n=5), characters.build(SMALL, 0))


def test_reading_heads_leaves_no_hook_behind():
    model = long_characters.build(SMALL, 1)
    long_characters.heads(long_characters.held_out(n=5), model)
    assert all(not layer.attention._forward_pre_hooks for layer in model.layers)


def test_what_is_read_was_held_out_from_its_first_character_on():
    ids, _, blocks = characters.text()
    tokens = long_characters.held_out(3, n=100)
    for row, block in zip(tokens, blocks[:3], strict=True):
        assert torch.equal(row, ids[block][:100])
    assert long_characters.held_out().shape == (1, long_characters.CONFIG.n)


def test_more_stretches_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"n_stretches must be in 1 … \d+, .* got 10000"):
        long_characters.held_out(10_000)


def test_the_stored_run_has_the_configuration_of_today_and_beats_its_bar():
    stored = records.load(long_characters.NAME)
    (run,) = stored["runs"]
    assert stored["config"] == json.loads(json.dumps(long_characters.CONFIG.__dict__))
    assert (run["seed"], run["steps"]) == (long_characters.SEED, long_characters.CONFIG.steps)
    short = records.load("characters")
    assert stored["bar"] == min(run["scores"]["bits"] for run in short["runs"])
    assert run["scores"]["bits"] < stored["bar"]
    assert stored["baselines"] == short["baselines"]


def test_the_first_steps_of_the_stored_run_come_out_again():
    stored = records.load(long_characters.NAME)["runs"][0]["first_losses"]
    # the learning rate still grows in these steps, so their number does not change them
    config = replace(long_characters.CONFIG, steps=8)
    again = characters.fit(long_characters.build(config), config, long_characters.SEED)
    assert again == pytest.approx(stored[:8], rel=0.05)


def test_the_stored_weights_reach_the_stored_score():
    stored = records.load(long_characters.NAME)
    same_text = len(characters.text()[0]) == stored["n_characters"]  # CPython's text grows
    bits = characters.bits_per_character(long_characters.load(), long_characters.CONFIG.n)
    score = stored["runs"][0]["scores"]["bits"]
    assert bits == pytest.approx(score, abs=0.01 if same_text else 0.1)


def test_weights_fit_into_the_repository():
    path = records.results_folder() / f"{long_characters.NAME}.npz"
    assert path.stat().st_size < 400_000
