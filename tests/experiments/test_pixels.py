"""Digits pixel by pixel: the experiment's parts, and what results/ claims, run again."""

import json
import math
from dataclasses import replace

import pytest
import torch

from tinyattn.experiments import pixels, records

SMALL = replace(pixels.PixelsConfig(), d_model=8, n_heads=2, dropout=0.0)


@pytest.mark.parametrize("name", pixels.MODELS)
def test_a_pixel_is_scored_from_those_generated_before_it(name):
    model = pixels.build(name, SMALL, 0).double().eval()
    order = pixels.order_of(name, SMALL)
    images = pixels.split()[1][:1]
    before = model(images)
    for time in (0, 5, 17, 40, 63):
        changed = images.clone()
        changed[0, order[time:]] = (changed[0, order[time:]] + 5) % pixels.LEVELS
        assert torch.equal(model(changed)[:, order[: time + 1]], before[:, order[: time + 1]])


def test_models_have_equally_many_parameters_and_the_deep_one_as_many_pairs_as_the_local_ones():
    config = pixels.PixelsConfig()
    counts = [
        sum(p.numel() for p in pixels.build(m, config, 0).parameters()) for m in pixels.MODELS
    ]
    assert len(set(counts[:3])) == 1
    assert counts[3] == pytest.approx(counts[0], rel=0.001)
    stored = records.load("pixels")["pairs"]
    for name in pixels.MODELS:
        assert stored[name] == sum(rule.edges(64) for rule in pixels.patterns(name, config))
    assert stored["1-D local"] <= stored["deep axial"] <= stored["2-D local"]


@pytest.mark.parametrize("name", ["axial", "deep axial"])
def test_the_patterns_of_an_axial_model_are_those_of_its_layers(name):
    config = pixels.PixelsConfig()
    model = pixels.build(name, config, 0)
    layers = [*model.outer, *model.inner]
    assert [layer.attention.pattern for layer in layers] == pixels.patterns(name, config)


def test_a_model_that_knows_nothing_needs_log2_of_the_levels():
    model = pixels.build("2-D local", SMALL, 0)
    torch.nn.init.zeros_(model.to_logits.weight)
    assert pixels.bits_per_dimension(model) == pytest.approx(math.log2(pixels.LEVELS))


def test_neighbours_are_those_to_the_left_and_above():
    images = torch.arange(64)[None] % 17
    left, above, own = pixels._neighbours(images).view(8, 8, 3).unbind(dim=-1)
    grid = images.view(8, 8)
    assert torch.equal(own, grid)
    assert torch.equal(left[:, 1:], grid[:, :-1])
    assert torch.equal(above[1:], grid[:-1])
    assert (left[:, 0] == pixels.LEVELS).all()
    assert (above[0] == pixels.LEVELS).all()


def test_counting_beats_knowing_nothing_and_one_neighbour_is_not_enough():
    assert 2.0 < pixels.order_2_bits() < 3.0


def test_samples_are_drawn_in_the_models_order_and_repeat():
    model = pixels.build("2-D local", SMALL, 0)
    order = pixels.order_of("2-D local", SMALL)
    first, again = (pixels.sample(model, order, 2, seed=3) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (2, 8, 8)
    assert 0 <= int(first.min()) <= int(first.max()) < pixels.LEVELS


def test_every_model_of_pictures_beats_counting_two_neighbours():
    stored = records.load("pixels")
    assert stored["baselines"]["order 2"] == pytest.approx(pixels.order_2_bits(), abs=1e-3)
    assert max(run["scores"]["bits"] for run in stored["runs"]) < stored["baselines"]["order 2"]


@pytest.mark.parametrize("name", ["axial", "2-D local", "deep axial"])
def test_the_first_steps_of_a_stored_picture_model_come_out_again(name):
    config = pixels.PixelsConfig()
    stored = next(r for r in records.load("pixels")["runs"] if (r["model"], r["seed"]) == (name, 1))
    again = pixels.fit(pixels.build(name, config, 1), replace(config, steps=20), 1)
    assert again == pytest.approx(stored["first_losses"], rel=0.05)


def test_results_were_made_with_the_configuration_of_today():
    config, stored = pixels.PixelsConfig(), records.load("pixels")
    assert stored["config"] == json.loads(json.dumps(config.__dict__))
    assert [(run["model"], run["seed"]) for run in stored["runs"]] == [
        (name, seed) for name in pixels.MODELS for seed in (0, 1, 2)
    ]
    assert all(run["steps"] == config.steps for run in stored["runs"])


def test_a_model_that_does_not_exist_is_refused():
    with pytest.raises(
        ValueError, match="there is 1-D local, 2-D local, axial, deep axial, got 'bush'"
    ):
        pixels.build("bush", SMALL, 0)
