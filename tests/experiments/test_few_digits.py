"""Few labelled digits: which pictures, which layers, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.analysis import dependencies, parameters
from tinyattn.experiments import digits, few_digits, records
from tinyattn.experiments.few_digits import ALL, SIDE, FewDigitsConfig

CONFIG = FewDigitsConfig()
KINDS = pytest.mark.parametrize("kind", few_digits.LAYERS)
GRID = [(row, col) for row in range(SIDE) for col in range(SIDE)]


def near(a, b):
    return abs(a[0] - b[0]) <= 1 and abs(a[1] - b[1]) <= 1


def test_fewer_pictures_have_as_many_of_each_digit_and_are_among_more():
    _, labels, _, _ = digits.split()
    few, more = few_digits.labelled(30, seed=1), few_digits.labelled(200, seed=1)
    assert labels[few].bincount().tolist() == [3] * 10
    assert labels[more].bincount().tolist() == [20] * 10
    assert set(few.tolist()) < set(more.tolist())
    assert not torch.equal(few, few_digits.labelled(30, seed=2))


def test_all_pictures_are_all_that_are_not_tested():
    assert sorted(few_digits.labelled(ALL, seed=0).tolist()) == list(range(ALL))
    assert len(digits.split()[1]) == ALL


@pytest.mark.parametrize("size", [0, 25, 1340, 5000])
def test_sizes_that_cannot_be_balanced_are_refused(size):
    with pytest.raises(ValueError, match=f"size must be 1347 or a multiple of 10 .*, got {size}"):
        few_digits.labelled(size, seed=0)


def test_the_band_and_the_kernel_read_a_patch_and_those_around_it():
    expected = torch.tensor([[near(a, b) for b in GRID] for a in GRID])
    assert torch.equal(few_digits.neighbours().mask(SIDE**2), expected)
    x = torch.randn(1, SIDE**2, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(dependencies(few_digits.GridConvolution(3), x), expected)


def test_the_convolution_moves_with_the_picture():
    layer = few_digits.GridConvolution(3)
    x = torch.randn(1, SIDE, SIDE, 3, generator=torch.Generator().manual_seed(0))
    x[:, -1] = 0
    down = torch.cat([x[:, -1:], x[:, :-1]], dim=1)
    out, moved = (layer(y.flatten(1, 2)).unflatten(1, (SIDE, SIDE)) for y in (x, down))
    assert torch.allclose(moved[:, 2:-1], out[:, 1:-2], atol=1e-6)


def test_the_bias_depends_on_the_step_between_two_patches_alone():
    bias = few_digits.GridBias(n_heads=2)
    at = torch.arange(SIDE**2)
    found = bias.score_bias(torch.zeros(1, 2, SIDE**2, 4), at, at, 1.0)
    for i, (row, col) in enumerate(GRID):
        for j, (to_row, to_col) in enumerate(GRID):
            expected = bias.table[:, to_row - row + SIDE - 1, to_col - col + SIDE - 1]
            assert torch.equal(found[:, i, j], expected)


@KINDS
def test_a_model_is_the_widest_within_the_budget(kind):
    d_model, step = few_digits.d_model_of(kind, CONFIG), CONFIG.n_heads
    assert d_model % step == 0
    assert parameters(few_digits.Classifier(kind, CONFIG, d_model)) <= CONFIG.budget
    assert parameters(few_digits.Classifier(kind, CONFIG, d_model + step)) > CONFIG.budget


@KINDS
def test_the_first_steps_of_a_stored_classifier_come_out_again(kind):
    size = CONFIG.sizes[1]
    stored = records.load("few_digits")["runs"]
    key = (kind, size, 1)
    run = next(run for run in stored if (run["kind"], run["size"], run["seed"]) == key)
    again = few_digits.fit(few_digits.build(kind, CONFIG, 1), replace(CONFIG, steps=20), size, 1)
    assert again == pytest.approx(run["first_losses"], rel=0.05)


def test_results_were_made_with_the_configuration_of_today():
    stored = records.load("few_digits")
    assert stored["config"] == json.loads(json.dumps(CONFIG.__dict__))
    expected = [
        (kind, size, seed)
        for kind in few_digits.LAYERS
        for size in CONFIG.sizes
        for seed in few_digits.SEEDS
    ]
    assert [(run["kind"], run["size"], run["seed"]) for run in stored["runs"]] == expected


def test_a_run_keeps_what_it_was():
    run = few_digits.run(replace(CONFIG, steps=2, budget=3000), "attention", 30, 4)
    assert (run["kind"], run["size"], run["seed"], run["steps"]) == ("attention", 30, 4, 2)
    assert 0 <= run["scores"]["accuracy"] <= 1
    assert run["parameters"] <= 3000


def test_kinds_and_budgets_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"there is convolution, .*, got 'pooling'"):
        few_digits.Classifier("pooling", CONFIG, 8)
    with pytest.raises(ValueError, match="budget=10 is too small"):
        few_digits.d_model_of("attention", replace(CONFIG, budget=10))
