"""What the chapters on sparse attention say about growth."""

from functools import cache

import pytest
import yaml

from tinyattn.analysis import Ledger, complexity_claims, measured, pattern_claims, with_times
from tinyattn.analysis.pattern_claims import TIMED, _tree_pairs
from tinyattn.experiments.records import results_folder
from tinyattn.patterns import bp_transformer

claims = cache(pattern_claims)  # counting takes seconds
CELL = {"kind": "time", "mode": "forward"}


def bench(power: float, case: str = "window/tinyattn") -> dict:
    cells = [{**CELL, "case": case, "n": n, "seconds": n**power} for n in (512, 1024, 4096)]
    return {"machine": None, "cells": cells}


def test_every_claim_of_the_chapters_holds_and_none_is_made_twice():
    ledger = Ledger([*complexity_claims(), *claims()])
    ledger.check()
    assert len(ledger.claims) > 25


def test_no_tolerance_is_so_wide_that_the_next_claim_would_pass():
    assert max(claim.tolerance for claim in claims()) <= 0.05


def test_every_claim_names_a_chapter_of_the_book():
    toc = yaml.safe_load((results_folder().parent / "_toc.yml").read_text(encoding="utf-8"))
    chapters = {entry["file"] for part in toc["parts"] for entry in part["chapters"]}
    assert {f"book/{claim.where}" for claim in claims()} <= chapters


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_of_seconds_is_read_from_a_benchmark(power):
    fit = measured(bench(power), "window/tinyattn")
    assert abs(fit.exponent - power) < 1e-9
    assert measured(bench(power), "window/tinyattn", "gradients") is None
    assert measured(bench(power), "random/tinyattn") is None
    assert measured({"cells": []}, "window/tinyattn") is None


def test_a_time_that_disagrees_is_shown_and_decides_nothing():
    timed = with_times(claims(), bench(1.7))
    by_name = {claim.name: claim for claim in timed}
    assert abs(by_name["window, pairs"].measured.exponent - 1.7) < 1e-9
    assert by_name["window, pairs"].holds
    assert by_name["BigBird, pairs"].measured is None
    assert set(TIMED) <= {claim.name for claim in [*complexity_claims(), *timed]}


def test_cells_without_seconds_or_of_another_kind_do_not_count():
    broken = {
        "cells": [
            {**CELL, "case": "a", "n": 1, "error": "x"},
            {**CELL, "case": "a", "n": 2, "seconds": 1.0},
        ]
    }
    assert measured(broken, "a") is None
    memory = {"cells": [{**cell, "kind": "memory"} for cell in bench(1.0, "a")["cells"]]}
    assert measured(memory, "a") is None


@pytest.mark.parametrize(("n", "k"), [(4, 1), (16, 2), (64, 3)])
def test_pairs_of_a_tree_are_those_of_its_tokens_with_others(n, k):
    reads = bp_transformer(n, k).mask(2 * n - 1)[:n]
    assert _tree_pairs(n, k) == int(reads.sum()) - n
