"""Which length a pattern pays from: on curves made up, and on what the benchmark writes."""

from dataclasses import FrozenInstanceError

import pytest

from benchmarks.results import Results
from benchmarks.timing import cell
from tinyattn.analysis import Ratios, ratios_to_dense

LENGTHS = (1024, 2048, 4096, 8192)


def pays_from(*to_dense):
    return Ratios("window/tinyattn", "forward", LENGTHS[: len(to_dense)], to_dense).pays_from


def in_words(*to_dense):
    return Ratios("window/tinyattn", "forward", LENGTHS[: len(to_dense)], to_dense).in_words()


def test_a_case_pays_from_the_first_length_after_which_it_is_never_slower():
    assert pays_from(1.5, 0.9, 0.8, 0.1) == 2048
    assert pays_from(0.9, 0.8, 0.7, 0.6) == 1024
    assert pays_from(0.9, 1.2, 0.8, 0.6) == 4096
    assert pays_from(1.4, 1.2, 1.1, 0.6) == 8192


def test_a_case_that_is_slower_in_the_end_never_pays():
    assert pays_from(0.5, 0.6, 0.7, 1.1) is None
    assert pays_from(3.0, 2.0) is None
    assert pays_from() is None


def test_as_fast_as_dense_is_not_faster():
    assert pays_from(1.0, 1.0) is None
    assert pays_from(1.0, 0.99) == 2048


def test_words_say_where_and_how_far_it_was_looked():
    assert in_words(1.5, 0.9, 0.8, 0.1) == "faster from n = 2,048 on"
    assert in_words(0.9, 0.8) == "faster at every measured length (n = 1,024 to 2,048)"
    assert in_words(2.0) == "faster at no measured length (n = 1,024)"
    assert in_words(2.0, 1.5, 1.2) == "faster at no measured length (n = 1,024 to 4,096)"
    assert in_words(0.5, 1.5) == "faster at shorter lengths only, not at 2,048"
    assert in_words(0.5, 0.7, 1.5) == "faster at shorter lengths only, not at 4,096"
    assert in_words() == "not measured"


def test_a_curve_does_not_change_and_compares_by_value():
    one = Ratios("window/tinyattn", "forward", (1024,), (0.5,))
    assert hash(one) == hash(Ratios("window/tinyattn", "forward", (1024,), (0.5,)))
    with pytest.raises(FrozenInstanceError):
        one.mode = "gradients"


def test_a_curve_is_read_from_what_the_benchmark_writes(tmp_path):
    cells = [
        cell("time", "window/tinyattn", 4096, "forward", seconds=1.0, to_dense=0.4),
        cell("time", "window/tinyattn", 1024, "forward", seconds=1.0, to_dense=1.4),
        cell("time", "window/tinyattn", 2048, "forward", error="failed: no luck"),
        cell("time", "window/tinyattn", 65_536, "forward", seconds=9.0),  # dense is not run there
        cell("time", "window/tinyattn", 1024, "gradients", seconds=1.0, to_dense=0.7),
        cell("time", "window/local-attention", 1024, "forward", seconds=1.0, to_dense=7.0),
        cell("memory", "window/tinyattn", 1024, "forward", bytes=5),
    ]
    path = tmp_path / "bench.json"
    Results({}, cells).save(path, {})
    bench = {"cells": list(Results.load(path).cells.values())[::-1]}
    found = ratios_to_dense(bench, "window/tinyattn")
    assert found == Ratios("window/tinyattn", "forward", (1024, 4096), (1.4, 0.4))
    assert ratios_to_dense(bench, "window/tinyattn", "gradients").to_dense == (0.7,)
    assert ratios_to_dense(bench, "blocks/tinyattn").n == ()


def test_another_mode_is_refused():
    with pytest.raises(ValueError, match="got 'backward'"):
        ratios_to_dense({"cells": []}, "window/tinyattn", "backward")
