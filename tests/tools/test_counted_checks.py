"""tools/tinybook/checks.py: what it counts in the sources is what runs."""

import json
from pathlib import Path

from tinybook import checks

from ..faults import FAULTS

TESTS = Path(__file__).parents[1]


def test_every_planted_fault_is_counted():
    counted = checks.faults(TESTS.parent)
    assert sum(counted.values()) == len(FAULTS)
    assert counted["patterns"] == sum(fault.file.startswith("patterns/") for fault in FAULTS)
    assert counted["tinyattn"] == sum("/" not in fault.file for fault in FAULTS)


def test_functions_are_counted_in_every_folder(tmp_path):
    (tmp_path / "inner").mkdir()
    for file in ("test_a.py", "inner/test_b.py"):
        (tmp_path / file).write_text("def test_x(): pass\ndef helper(): pass\n")
    (tmp_path / "inner" / "other.py").write_text("def test_y(): pass\n")
    assert checks.by_folder(tmp_path) == {checks.FRONT: 1, "inner": 1}


def test_this_folder_is_among_those_found():
    assert checks.by_folder(TESTS)["tools"] >= 3


def test_an_oracle_says_what_it_compares():
    rows = {name: about for name, about, _ in checks.oracles(TESTS / "oracles")}
    assert rows["test_bigbird.py"].startswith("BigBird against")
    assert all(rows.values())


def test_asserts_and_compared_outputs_of_a_chapter_are_counted(tmp_path):
    def cell(source, outputs=(), tags=()):
        return {
            "cell_type": "code",
            "source": [source],
            "outputs": list(outputs),
            "metadata": {"tags": list(tags)},
        }

    words = {"output_type": "stream", "text": "1"}
    cells = [
        cell("assert True\n    assert x\nassertion = 1"), cell("print(1)", [words]),
        cell("print(1)", [words], ["nbval-ignore-output"]), {"cell_type": "markdown", "source": ["assert"]},
    ]  # fmt: skip
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert checks.chapter_counts(path) == (3, 2, 1)


def test_numbers_stand_under_their_head_and_pages_are_called_by_their_titles():
    table = checks.table(["page", "seen", "when"], [(checks.page("book/a"), "7 %", "2030")])
    head, [row] = [part.children for part in table[0][-2:]]
    assert [entry["classes"] for entry in head[0]] == [[], ["number"], ["number"]]
    assert [entry["classes"] for entry in row] == [[], ["number"], ["number"]]
    assert row[0][0][0]["reftarget"] == "/book/a"
    assert row[0][0][0]["refexplicit"] is False
