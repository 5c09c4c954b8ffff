"""tools/mutants.py: what is changed, which tests are asked, and what counts as seen."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import mutants
from tests.equivalents import EQUIVALENTS

SOURCE = """
def at_least(x: int | None, least: int = 2) -> int | None:
    return x if x >= least and x != 7 else None
"""

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="`make mutants` forks")


def test_every_module_of_the_core_has_tests_and_every_test_is_there():
    for module in mutants.modules():
        for test in mutants.tests_of(module):
            assert (mutants.ROOT / "tests" / test).is_file(), test
    assert set(mutants.MORE_TESTS) <= set(mutants.modules())
    core = {"dense.py", "engine.py", "groups.py", "patterns/positional.py", "content/lsh.py"}
    assert core <= set(mutants.modules())


def test_a_module_is_tried_or_has_a_reason_not_to_be():
    files = {path.relative_to(mutants.PACKAGE).as_posix() for path in mutants.PACKAGE.rglob("*.py")}
    code = {name for name in files if not name.endswith("__init__.py")}
    assert set(mutants.LEFT_OUT) <= code
    assert set(mutants.modules()) | set(mutants.LEFT_OUT) == code
    assert not set(mutants.modules()) & set(mutants.LEFT_OUT)


def test_what_a_record_is_silent_about_is_left_out_or_not_tried_yet(monkeypatch):
    monkeypatch.setattr(mutants, "LEFT_OUT", {"data.py": "Takes an hour"})
    tried = dict.fromkeys(mutants._files())
    del tried["data.py"], tried["dense.py"]
    assert mutants.untried({"modules": tried}) == {
        "data.py": "Takes an hour",
        "dense.py": "Not tried yet",
    }
    assert "__init__.py" not in mutants.untried({"modules": {}})


def test_annotations_are_known_by_their_places():
    lines = SOURCE.splitlines()
    found = [lines[a - 1][b:d] for (a, b), (_, d) in mutants.annotated(SOURCE)]
    assert sorted(found) == ["int", "int | None", "int | None"]


@pytest.mark.parametrize(("module", "first"), [("dense.py", "test_dense.py")])
def test_the_tests_of_a_module_start_with_those_of_its_name(module, first):
    assert mutants.tests_of(module)[0] == first


# ------------------------------------------------------------- with what `make mutants` installs


@pytest.fixture
def operators():
    pytest.importorskip("cosmic_ray", reason="`make mutants` installs cosmic-ray")


@pytest.mark.usefixtures("operators")
def test_changes_are_of_conditions_and_numbers_and_not_of_annotations():
    sample, n_changes = mutants.draw(SOURCE, "here.py", 1000)
    assert 10 < len(sample) <= n_changes
    lines = {one.new for one in sample}
    assert "return x if x > least and x != 7 else None" in lines
    assert "return x if x >= least or x != 7 else None" in lines
    assert any("least: int = 3" in line for line in lines)
    assert not any("int & None" in line or " is " in line for line in lines)


@pytest.mark.usefixtures("operators")
def test_a_sample_repeats_itself_and_begins_with_one_change_of_each_place():
    small, _ = mutants.draw(SOURCE, "here.py", 4)
    large, _ = mutants.draw(SOURCE, "here.py", 8)
    assert large[:4] == small
    assert len({one.operator.split("_")[0] for one in small}) > 1
    assert mutants.draw(SOURCE, "elsewhere.py", 4)[0] != small


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("source", ["x = 1 if True else 1\n", "x = 'no number'\n"])
def test_what_cannot_be_changed_gives_no_mutant(source):
    assert all(one.source != source for one in mutants.draw(source, "here.py", 50)[0])


# ------------------------------------------------------------------------------- what is seen


def bench(folder):
    """One that runs nothing."""
    one = mutants.Bench.__new__(mutants.Bench)
    one.file, one.copy, one.tests, one.only, one.seconds = folder / "module.py", folder, [], "", 0
    return one


def test_an_example_that_fails_is_not_made_smaller():
    before = settings.get_current_profile_name()
    try:
        mutants.FirstExample().pytest_configure()
        assert settings.default.phases == (Phase.explicit, Phase.generate)
        assert settings.default.derandomize
    finally:
        settings.load_profile(before)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, "survived"),
        (1, "killed"),
        (2, "killed"),
        (4, "killed"),
        (-9, "killed"),
        (mutants.TIMEOUT, "timeout"),
    ],
)
def test_tests_that_fail_or_cannot_even_be_loaded_have_seen_the_change(
    code, verdict, tmp_path, monkeypatch
):
    monkeypatch.setattr(mutants, "run", lambda *arguments: code)
    assert bench(tmp_path).verdict(mutants.Mutant("any", 1, "a", "b", "b = 1\n")) == verdict
    assert (tmp_path / "module.py").read_text("utf-8") == "b = 1\n"


@pytest.mark.parametrize(
    ("code", "why"),
    [(5, "no test ran"), (mutants.BROKEN, "in an error"), (mutants.ELSEWHERE, "another copy")],
)
def test_a_run_that_says_nothing_of_the_change_stops_the_tool(code, why, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "run", lambda *arguments: code)
    with pytest.raises(RuntimeError, match=f"{why}.*, with 'a' made 'b'"):
        bench(tmp_path).verdict(mutants.Mutant("any", 1, "a", "b", "b = 1\n"))


TRY = """
import json, sys
from pathlib import Path
import mutants

bench = mutants.Bench("patterns/matched.py", Path(sys.argv[1]))
for old, new in json.loads(sys.argv[2]):
    assert old in bench.healthy
    text = bench.healthy.replace(old, new, 1)
    print("verdict:", bench.verdict(mutants.Mutant("by hand", 1, old, new, text)))
"""


@needs_fork
def test_a_change_that_matters_is_seen_and_another_is_not(tmp_path):
    changes = [
        ("\nimport torch", "\nimport math\nimport torch"),
        ("return ", "return not "),
        ("\nimport torch", "\nimport torches"),
    ]
    found = subprocess.run(
        [sys.executable, "-c", TRY, str(tmp_path), json.dumps(changes)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(mutants.__file__).parent)},
    )
    assert re.findall(r"verdict: (\w+)", found.stdout) == ["survived", "killed", "killed"], (
        found.stderr
    )


def test_an_explanation_is_of_a_line_that_stands_in_its_module_and_is_given_once():
    told = [(one.file, one.old, one.new) for one in EQUIVALENTS]
    assert len(set(told)) == len(told)
    for file, old, _ in told:
        lines = (mutants.PACKAGE / file).read_text(encoding="utf-8").splitlines()
        assert old in map(str.strip, lines), (file, old)
