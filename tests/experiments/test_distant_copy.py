"""A marked symbol far away: what is drawn, how models are built, and what results/ claims."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.analysis import dependencies, parameters
from tinyattn.experiments import distant_copy, records
from tinyattn.experiments.distant_copy import CopyConfig
from tinyattn.training import seeded

CONFIG = CopyConfig()
SMALL = replace(CONFIG, n=10, budget=4000, n_test=100)
KINDS = pytest.mark.parametrize("kind", distant_copy.LAYERS)


def test_one_symbol_is_marked_so_many_places_before_the_last_and_is_the_answer():
    distance = torch.arange(CONFIG.n)
    tokens, answers = distant_copy.draw(CONFIG, distance, torch.Generator().manual_seed(0))
    for row, answer, back in zip(tokens.tolist(), answers.tolist(), distance.tolist(), strict=True):
        marks = [place for place, token in enumerate(row) if token >= CONFIG.n_symbols]
        assert marks == [CONFIG.n - 1 - back]
        assert row[marks[0]] - CONFIG.n_symbols == answer
    assert set(tokens.flatten().tolist()) == set(range(2 * CONFIG.n_symbols))


def test_drawing_leaves_global_randomness_alone():
    before = torch.get_rng_state()
    distant_copy.draw(CONFIG, torch.tensor([3]), torch.Generator().manual_seed(0))
    distant_copy.build("convolution", SMALL, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@KINDS
def test_a_model_is_the_widest_within_the_budget(kind):
    d_model = distant_copy.d_model_of(kind, SMALL)
    assert parameters(distant_copy.Copier(kind, SMALL, d_model)) <= SMALL.budget
    assert parameters(distant_copy.Copier(kind, SMALL, d_model + 1)) > SMALL.budget


@KINDS
def test_budgets_are_nearly_used_up_by_every_kind(kind):
    model = distant_copy.build(kind, CONFIG, seed=0)
    assert 0.95 * CONFIG.budget < parameters(model) <= CONFIG.budget


@pytest.mark.parametrize(
    ("kind", "reach"),
    [("self-attention", 29), ("fully connected", 29),
     ("convolution", 6), ("dilated convolution", 26), ("recurrent", 29)],
)  # fmt: skip
def test_the_last_position_learns_from_as_far_back_as_the_layers_reach(kind, reach):
    config = replace(CONFIG, n=30, width=3, n_layers=3)  # 3 layers: 3 * 2, or 3³ - 1
    with seeded(0):  # some draws silence a unit on the way
        model = distant_copy.Copier(kind, config, d_model=6)
    x = torch.randn(1, 30, 6, generator=torch.Generator().manual_seed(0))
    reads = dependencies(lambda x: model.mix(x)[:, -1:], x)[0]
    assert reads[29 - reach :].all()
    assert not reads[: 29 - reach].any()


def test_shares_are_counted_at_each_distance():
    class KnowsNearMarks(distant_copy.Copier):
        def forward(self, tokens):
            near = tokens[:, -3:]
            said = torch.where(near >= 8, near - 8, 0).sum(dim=1)
            logits = torch.nn.functional.one_hot(said, 8).float()
            logits[(near < 8).all(dim=1)] = -torch.arange(8.0)  # says symbol 0
            return logits

    model = KnowsNearMarks("convolution", SMALL, 2)
    shares = distant_copy.by_distance(model, replace(SMALL, n_test=10_000))
    assert shares[:3] == [1.0, 1.0, 1.0]
    assert all(abs(share - 1 / 8) < 0.05 for share in shares[3:])


@KINDS
def test_the_first_steps_of_a_stored_copier_come_out_again(kind):
    stored = records.load("distant_copy")["runs"]
    run = next(run for run in stored if (run["kind"], run["seed"]) == (kind, 1))
    model = distant_copy.build(kind, CONFIG, 1)
    assert (run["d_model"], run["parameters"]) == (
        model.embedding.embedding_dim,
        parameters(model),
    )
    # warm-up alone: the first steps do not depend on how many follow
    again = distant_copy.fit(model, replace(CONFIG, steps=8), 1)
    assert again == pytest.approx(run["first_losses"][:8], rel=0.05)


def test_results_were_made_with_the_configuration_of_today_and_meet_the_bar():
    stored = records.load("distant_copy")
    assert stored["config"] == json.loads(json.dumps(CONFIG.__dict__))
    assert stored["chance"] == 1 / CONFIG.n_symbols
    runs = [(run["kind"], run["seed"]) for run in stored["runs"]]
    assert runs == [(kind, seed) for kind in distant_copy.LAYERS for seed in distant_copy.SEEDS]
    for run in stored["runs"]:
        assert len(run["by_distance"]) == CONFIG.n
        if run["kind"] == "self-attention":
            assert min(run["by_distance"]) >= stored["bar"]
        if run["kind"] == "convolution":
            assert max(run["by_distance"][9:]) < 0.3  # no path, no knowledge


def test_a_run_keeps_what_it_was():
    run = distant_copy.run(replace(SMALL, steps=2), "convolution", 5)
    assert (run["kind"], run["seed"], run["steps"]) == ("convolution", 5, 2)
    assert run["scores"]["accuracy"] == pytest.approx(sum(run["by_distance"]) / 10, abs=1e-3)


def test_kinds_and_budgets_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"there is self-attention, .*, got 'pooling'"):
        distant_copy.Copier("pooling", SMALL, 4)
    with pytest.raises(ValueError, match="budget=10 is too small"):
        distant_copy.d_model_of("recurrent", replace(SMALL, budget=10))
