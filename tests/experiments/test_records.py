"""What a training run leaves behind."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from tinyattn.experiments import records


@dataclass(frozen=True)
class Config:
    d_model: int = 8
    word: str = "µ"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "results_folder", lambda: tmp_path)
    return tmp_path


def test_results_are_found_from_a_chapter_and_missed_without_the_book(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "__file__", str(tmp_path / "site-packages" / "records.py"))
    chapter = tmp_path / "clone" / "book" / "appendices"
    chapter.mkdir(parents=True)
    (tmp_path / "clone" / "results").mkdir()
    monkeypatch.chdir(chapter)
    with pytest.raises(FileNotFoundError, match="clone the book's repository"):
        records.results_folder()  # another project's results, without a table of contents
    (tmp_path / "clone" / "_toc.yml").touch()
    assert records.results_folder() == tmp_path / "clone" / "results"
    monkeypatch.chdir(tmp_path / "clone")
    assert records.results_folder() == tmp_path / "clone" / "results"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="`make results` writes them anew"):
        records.results_folder()


def test_results_are_found_from_the_package_wherever_one_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "__file__", str(tmp_path / "src" / "tinyattn" / "records.py"))
    (tmp_path / "results").mkdir()
    (tmp_path / "_toc.yml").touch()
    monkeypatch.chdir(tmp_path.parent)
    assert records.results_folder() == tmp_path / "results"


def test_a_run_is_timed_to_a_tenth_of_a_second(monkeypatch):
    clock = iter([100.0, 103.26])
    monkeypatch.setattr(records.time, "perf_counter", lambda: next(clock))
    assert records.timed(lambda: [2.0, 1.0]) == ([2.0, 1.0], 3.3)


def test_a_record_thins_the_losses_and_keeps_the_first():
    run = records.record(3, [float(step) for step in range(1200)], 1.0, {"exact": 0.98765})
    assert (run["seed"], run["steps"], run["seconds"]) == (3, 1200, 1.0)
    assert run["scores"] == {"exact": 0.9877}
    assert run["losses"] == pytest.approx([9.5 + 20 * piece for piece in range(60)])
    assert run["first_losses"] == [float(step) for step in range(20)]
    json.dumps(run)


def test_a_short_run_is_recorded_step_by_step_with_four_digits():
    run = records.record(0, [1.00004, 0.12345678], 0.1, {})
    assert run["losses"] == run["first_losses"] == [1.0, 0.1235]


def test_what_is_saved_is_loaded_with_its_configuration_and_versions(folder):
    path = records.save("some", Config(), [{"seed": 0}], n_characters=7)
    assert path == folder / "some.json"
    stored = records.load("some")
    assert stored["name"] == "some"
    assert stored["config"] == {"d_model": 8, "word": "µ"}
    assert stored["runs"] == [{"seed": 0}]
    assert stored["n_characters"] == 7
    assert stored["versions"]["torch"] == torch.__version__
    assert stored["threads"] == torch.get_num_threads()
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n "name": "some",\n')
    assert text.endswith("}\n")
    assert "µ" in text


def test_a_configuration_that_is_no_dataclass_is_refused(folder):
    with pytest.raises(TypeError, match="config must be a dataclass, got dict"):
        records.save("some", {}, [])
    assert not list(folder.iterdir())


def test_results_that_are_missing_say_how_to_get_them(folder):
    with pytest.raises(FileNotFoundError, match="no results of dates yet: `make results`"):
        records.load("dates")


def test_a_benchmark_that_never_ran_has_no_numbers(folder):
    assert records.load_bench() == {"machine": None, "cells": []}
    (folder / "bench.json").write_text('{"machine": {"cpu": "µ"}, "cells": [1]}', "utf-8")
    assert records.load_bench() == {"machine": {"cpu": "µ"}, "cells": [1]}


def test_weights_come_back_as_they_went_in_half_the_digits(folder):
    saved, other = nn.Linear(3, 2), nn.Linear(3, 2)
    nn.init.normal_(saved.weight, generator=torch.Generator().manual_seed(0))
    assert records.save_weights("some", saved) == folder / "some.npz"
    assert records.load_weights("some", other) is other
    for name, value in saved.state_dict().items():
        assert other.state_dict()[name].dtype == torch.float32
        assert torch.equal(other.state_dict()[name], value.half().float())


def test_a_file_of_weights_that_holds_anything_but_numbers_is_refused(folder):
    """A pickled object could run code when it is read."""
    np.savez(folder / "some.npz", weight=np.array([{"bias": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        records.load_weights("some", nn.Linear(3, 2))
