"""The experiments' parts on inputs small enough to check, and what results/ claims, run again."""

import json
from dataclasses import replace

import pytest
import torch

from tinyattn.data import DATE_FORMATS, split_days, write_date
from tinyattn.experiments import characters, dates, digits, records


def test_a_date_is_padded_behind_and_its_padding_marked():
    tokens, real = dates.encode_written(["4.3.98", "4 Mar 98"])
    assert dates.WRITTEN.decode(tokens[0]) == "4.3.98__"
    assert real.tolist() == [[True] * 6 + [False] * 2, [True] * 8]


def test_the_alphabet_writes_every_format():
    days, _ = split_days()
    for format in DATE_FORMATS:
        written = write_date(days[0], format)
        assert dates.PAD not in written
        assert dates.WRITTEN.decode(dates.WRITTEN.encode(written)) == written


def test_a_target_is_the_iso_date_between_its_signs():
    days, _ = split_days()
    assert dates.ISO.decode(dates.encode_iso(days[:1])[0]) == f"<{days[0].isoformat()}>"


def test_tested_days_are_never_trained_on():
    trained, _ = split_days()
    config = dates.DatesConfig()
    tested = {iso for _, iso in dates.test_pairs(config)}
    assert len(tested) == config.n_test_days
    assert tested.isdisjoint(day.isoformat() for day in trained)


def test_accuracy_counts_exact_answers_only(monkeypatch):
    answers = ["1998-03-04", "1998-03-05", "1998-03-0"]
    monkeypatch.setattr(dates, "translate", lambda model, texts: answers)
    model = dates.build(dates.DatesConfig(d_model=8, n_heads=1), 0)
    assert dates.accuracy(model, [("a", "1998-03-04")] * 3) == pytest.approx(1 / 3)


def test_patches_keep_every_pixel_in_its_place():
    images = torch.arange(2 * 64.0).view(2, 8, 8)
    for height, width in [(1, 8), (2, 2), (4, 4), (2, 8), (8, 1)]:
        cut = digits.patches(images, (height, width))
        row, column = 5, 6
        patch = row // height * (8 // width) + column // width
        inside = row % height * width + column % width
        assert torch.equal(cut[:, patch, inside], images[:, row, column])
        assert cut.flatten(1).sort().values.equal(images.flatten(1))


def test_a_patch_that_does_not_divide_the_picture_is_refused():
    with pytest.raises(ValueError, match=r"patch must divide the 8 pixels of a side, got \(3, 8\)"):
        digits.build(digits.DigitsConfig(patch=(3, 8)), 0)


def test_shifting_moves_a_picture_by_at_most_one_pixel():
    image = torch.zeros(200, 8, 8)
    image[:, 3, 4] = 1
    moved = digits.shifted(image, torch.Generator().manual_seed(0))
    places = {tuple(place[1:].tolist()) for place in moved.nonzero()}
    assert places == {(row, column) for row in (2, 3, 4) for column in (3, 4, 5)}


def test_digits_are_split_without_overlap():
    images, labels, test_images, test_labels = digits.split()
    assert (len(labels), len(test_labels)) == (1797 - digits.N_TEST, digits.N_TEST)
    assert float(images.max()) == 1.0
    seen = {image.numpy().tobytes() for image in images}
    repeated = sum(image.numpy().tobytes() in seen for image in test_images)
    assert repeated == 0


def test_every_held_out_character_behind_the_context_is_predicted_once():
    block = torch.arange(200)
    predicted = []
    for stretch in characters._stretches(block, n=64):
        assert len(stretch) <= 65
        predicted += stretch[characters.CONTEXT :].tolist()
    assert predicted == list(range(characters.CONTEXT, 200))


def test_a_model_that_knows_nothing_needs_log2_of_the_alphabet():
    config = replace(characters.CharactersConfig(), d_model=8, n_heads=2, n_layers=1)
    model = characters.build(config, 0)
    torch.nn.init.zeros_(model.to_logits.weight)
    bits = characters.bits_per_character(model, config.n)
    assert bits == pytest.approx(torch.tensor(float(len(characters.CODEC))).log2().item())


@pytest.mark.parametrize("name", ["dates", "digits", "characters"])
def test_results_were_made_with_the_configuration_of_today(name):
    module = {"dates": dates, "digits": digits, "characters": characters}[name]
    kind = getattr(module, f"{name.capitalize()}Config")
    stored = records.load(name)
    assert stored["config"] == json.loads(json.dumps(kind().__dict__))
    assert [run["seed"] for run in stored["runs"]] == [0, 1, 2]
    assert all(run["steps"] == kind().steps for run in stored["runs"])


def test_the_bars_hold_for_the_stored_results():
    exact = [run["scores"]["exact"] for run in records.load("dates")["runs"]]
    assert min(exact) >= dates.BAR
    assert dates.DatesConfig().steps <= 1800
    accuracy = [run["scores"]["accuracy"] for run in records.load("digits")["runs"]]
    assert sum(accuracy) / len(accuracy) >= digits.BAR
    stored = records.load("characters")
    assert max(run["scores"]["bits"] for run in stored["runs"]) < stored["baselines"]["4-gram"]


@pytest.mark.parametrize("name", ["dates", "digits", "characters"])
def test_the_first_steps_of_a_stored_run_come_out_again(name):
    module = {"dates": dates, "digits": digits, "characters": characters}[name]
    config = getattr(module, f"{name.capitalize()}Config")()
    stored = records.load(name)["runs"][1]
    # the learning rate still grows in these steps, so their number does not change them
    again = module.fit(module.build(config, 1), replace(config, steps=101), 1)[:20]
    assert again == pytest.approx(stored["first_losses"], rel=0.05)


def test_the_stored_characters_model_reaches_its_stored_score():
    config = characters.CharactersConfig()
    stored = records.load("characters")
    model = records.load_weights("characters", characters.build(config, 0))
    ids = characters.text()[0]
    tolerance = 0.01 if len(ids) == stored["n_characters"] else 0.1  # CPython's text grows
    bits = characters.bits_per_character(model, config.n)
    assert bits == pytest.approx(stored["runs"][0]["scores"]["bits"], abs=tolerance)
