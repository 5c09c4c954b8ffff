"""tools/flaky.py: other orders, the same tests, and every difference told."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flaky

NAMES = [f"{file}.py::test_{n}" for file in ("a", "b", "c") for n in range(4)]


def ordered(order):
    return [NAMES[place] for place in flaky.in_order(NAMES, order)]


@pytest.mark.parametrize("order", ["as written", "reversed", "1", "2"])
def test_an_order_loses_no_test_and_keeps_files_together(order):
    assert sorted(ordered(order)) == sorted(NAMES)
    files = [name.split("::")[0] for name in ordered(order)]
    assert sum(one != other for one, other in itertools.pairwise(files)) == 2


def test_orders_differ_and_a_seed_repeats_its_own():
    orders = [tuple(ordered(one)) for one in ("as written", "reversed", "1", "2")]
    assert len(set(orders)) == 4
    assert ordered("7") == ordered("7")


def test_tests_of_a_page_stay_together_in_an_order_of_their_own():
    pages = [None, "x", "y", "x", "y", "x", "y", None, None, None, None, None]
    orders = [flaky.in_order(NAMES, str(seed), pages) for seed in range(20)]
    for order in orders:
        assert sorted(order) == list(range(len(NAMES)))
        for file, page in (("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")):
            at = [
                order.index(place)
                for place, name in enumerate(NAMES)
                if name[0] == file and pages[place] == page
            ]
            assert max(at) - min(at) == len(at) - 1
    assert {order.index(1) < order.index(3) for order in orders} == {True, False}
    assert flaky.in_order(NAMES, "1", [None] * len(NAMES)) == flaky.in_order(NAMES, "1")


def test_outcomes_of_the_package_outlive_tests_that_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setattr(flaky.stamps, "sources", list)
    monkeypatch.setattr(flaky.stamps, "digest", lambda file: file.read_text())
    left_out, kept = (tmp_path / "tests" / name for name in ("site/test_x.py", "test_y.py"))
    left_out.parent.mkdir(parents=True)

    def digests():
        return flaky.code_of("package"), flaky.code_of("programs")

    left_out.write_text("1")
    kept.write_text("1")
    package, programs = digests()
    left_out.write_text("2")
    assert digests()[0] == package
    assert digests()[1] != programs
    kept.write_text("2")
    assert digests()[0] != package


def test_ten_runs_have_ten_conditions():
    assert len(set(flaky.RUNS)) == 10
    assert {one.threads for one in flaky.RUNS} == {1, 2}
    assert {one.instructions for one in flaky.RUNS} == {"default", "avx2", "avx512"}
    assert len({one.order for one in flaky.RUNS}) == 10


def test_a_test_that_says_two_things_is_told_and_others_are_not():
    one, other = flaky.RUNS[:2]
    runs = [(one, {"x": "passed", "y": "passed"}), (other, {"x": "failed", "y": "passed"})]
    assert flaky.differences(runs) == [
        (
            "x: passed with order as written, 1 thread, default instructions; "
            "failed with order reversed, 2 threads, avx2 instructions"
        )
    ]


def test_a_test_that_is_missing_in_a_run_is_told():
    one, other = flaky.RUNS[:2]
    [told] = flaky.differences([(one, {"x": "passed"}), (other, {})])
    assert "missing with order reversed" in told


ORDER_MATTERS = """
seen = []

def test_first():
    seen.append(1)

def test_second():
    assert seen

def test_broken_tear_down(request):
    request.addfinalizer(lambda: 1 / 0)
"""


def test_a_test_that_needs_another_before_it_is_found(tmp_path):
    (tmp_path / "test_order.py").write_text(ORDER_MATTERS)
    said = []
    for order in ("as written", "reversed"):
        kept = tmp_path / f"{order}.json"
        environment = {
            **os.environ,
            "TINYATTN_ORDER": order,
            "TINYATTN_OUTCOMES": str(kept),
            "PYTHONPATH": str(Path(flaky.__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "flaky", "-p", "no:cacheprovider"]
        subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
        )
        outcomes = json.loads(kept.read_text())
        said.append({name.split("::")[1]: outcome for name, outcome in outcomes.items()})
    assert said == [
        {"test_first": "passed", "test_second": "passed", "test_broken_tear_down": "failed"},
        {"test_first": "passed", "test_second": "failed", "test_broken_tear_down": "failed"},
    ]


def test_each_test_is_in_one_suite_and_what_is_named_exists():
    assert set(flaky.SUITES) == {"package", "programs"}
    left_out = {option.removeprefix("--ignore=") for option in flaky.SUITES["package"]}
    assert left_out == set(flaky.SUITES["programs"])
    assert all((flaky.ROOT / path).exists() for path in left_out)


def test_what_opens_a_browser_is_among_the_programs():
    listed = [flaky.ROOT / path for path in flaky.STARTS_PROGRAMS]
    files = sorted((flaky.ROOT / "tests").rglob("test_*.py"))
    asking = [f for f in files if re.search(r"def \w+\([^)]*\b(browser|page)\b", f.read_text())]
    assert len(asking) >= 8
    for file in asking:
        assert any(path in (file, *file.parents) for path in listed), file


def two_sided(one):
    """What two tests say in a run: one of them fails with two threads."""
    return {"t": "failed" if one.threads > 1 else "passed", "s": "skipped"}


@pytest.fixture
def asked(monkeypatch):
    """The runs that are asked for; none is really started."""
    asked = []

    def run(one, tests, processes, kept):
        asked.append((one, tests, processes))
        kept.write_text(json.dumps({"seconds": 3, "said": two_sided(one)}))

    monkeypatch.setattr(flaky, "run", run)
    return asked


def test_outcomes_of_a_suite_are_kept_and_more_runs_are_added(tmp_path, asked):
    first = flaky.gathered(["tests/site"], 1, 2, tmp_path / "programs", {})
    assert first["differences"] == []
    assert asked == [(flaky.RUNS[0], ["tests/site"], 2)]
    both = flaky.gathered(["tests/site"], 1, 2, tmp_path / "programs", {})
    assert asked[1:] == [(flaky.RUNS[1], ["tests/site"], 2)]
    assert both["runs"][0] == first["runs"][0]
    assert (both["runs"][1]["failed"], both["runs"][1]["skipped"]) == (1, 1)
    assert [told.split(":")[0] for told in both["differences"]] == ["t"]
    assert flaky.gathered(["tests/site"], 0, 2, tmp_path / "programs", {}) == both


def test_another_machine_goes_on_where_the_record_ends_and_compares_with_it(tmp_path, asked):
    record = flaky.gathered([], 1, 2, tmp_path / "here", {})
    same = flaky.gathered([], 0, 2, tmp_path / "there", record)
    assert (same, len(asked)) == (record, 1)
    more = flaky.gathered([], 2, 2, tmp_path / "there", record)
    assert [one for one, *_ in asked] == flaky.RUNS[:3]
    assert [flaky.conditions(row) for row in more["runs"]] == flaky.RUNS[:3]
    assert more["runs"][0] == record["runs"][0]
    # the two runs of that machine have one thread and two, so the test is told by its name
    assert [told.split(":")[0] for told in more["differences"]] == ["t"]
    alone = flaky.gathered([], 1, 2, tmp_path / "elsewhere", record)
    [told] = alone["differences"]
    assert told == (
        "some test did not say with order reversed, 2 threads, avx2 instructions "
        "what it said with order as written, 1 thread, default instructions"
    )
    for known in (more, alone):
        last = flaky.gathered([], 0, 2, tmp_path / "last", known)
        assert last["differences"] == known["differences"]


def test_the_record_goes_on_only_for_the_same_code(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setattr(flaky, "RECORD", tmp_path / "flaky.json")
    monkeypatch.setattr(flaky.stamps, "stamp", lambda files: {})

    def suites(code, *arguments):
        monkeypatch.setattr(flaky, "code_of", lambda name: f"{name} {code}")
        monkeypatch.setattr(sys, "argv", ["flaky.py", *arguments])
        flaky.main()
        return json.loads(flaky.RECORD.read_text())["suites"]

    assert [suite["runs"] for suite in suites("now", "--more", "0").values()] == [[], []]
    package = suites("now", "package", "--more", "1")["package"]
    assert len(package["runs"]) == 1
    both = suites("now", "programs", "--more", "1")
    assert both["package"] == package
    assert len(both["programs"]["runs"]) == 1
    assert [suite["runs"] for suite in suites("later", "--more", "0").values()] == [[], []]


def test_a_release_asks_for_every_run_of_the_code_as_it_is(tmp_path, monkeypatch, capsys):
    code = {"package": "now", "programs": "now"}
    rows = [flaky.asdict(one) for one in flaky.RUNS]
    monkeypatch.setattr(flaky, "code_of", code.get)
    monkeypatch.setattr(flaky, "RECORD", tmp_path / "flaky.json")
    monkeypatch.setattr(sys, "argv", ["flaky.py", "--complete"])

    def complete(package, programs):
        suites = {"package": package, "programs": programs}
        suites = {name: {"code": "now", "runs": runs} for name, runs in suites.items()}
        flaky.RECORD.write_text(json.dumps({"suites": suites}))
        return flaky.main() == 0, capsys.readouterr().out

    assert complete(rows, rows)[0]
    done, said = complete(rows, rows[:7])
    assert (done, said) == (
        False,
        "programs ran in 7 of 10 conditions; `make flaky` runs the others\n",
    )
    code["package"] = "later"
    done, said = complete(rows, rows)
    assert not done
    assert said.startswith("package ran in 0 of 10 conditions")
    makefile = (Path(flaky.__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert re.search(
        r"^release:.*\n\t\$\(BIN\)/python tools/flaky.py --complete$", makefile, re.MULTILINE
    )


def test_what_is_left_out_is_not_run(tmp_path, monkeypatch):
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text("def test_it():\n    pass\n")
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(flaky.__file__).parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    kept = tmp_path / "kept.json"
    flaky.run(flaky.RUNS[0], ["--ignore=test_two.py"], 1, kept)
    assert json.loads(kept.read_text())["said"] == {"test_one.py::test_it": "passed"}


def test_files_run_in_the_order_of_a_run_by_several_processes_too(tmp_path, monkeypatch):
    """Left to itself, xdist would begin with the files that hold most tests."""
    for file, n in (("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)):
        tests = [f"def test_{number}():\n    pass\n" for number in range(n)]
        (tmp_path / f"test_{file}.py").write_text("\n".join(tests))
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(flaky.__file__).parent))
    kept = tmp_path / "kept.json"
    flaky.run(flaky.RUNS[0], [], 2, kept)
    said = json.loads(kept.read_text())["said"]
    assert len(said) == 15
    assert next(iter(said)).startswith(("test_a", "test_b"))  # each process begins with one of them
