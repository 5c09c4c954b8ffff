"""Change the package in one small way at a time, and see whether its own tests notice.

    python tools/mutants.py [WORD ...] [--sample 60] [--minutes 30] [--again]
    python tools/mutants.py [WORD ...] --survivors [--only EXPRESSION]

cosmic-ray makes the changes: another operator, a number one higher, `not` before a condition, a
loop that never runs. Of those that a module allows, a sample drawn with a fixed seed is tried. What
survives is a change that the tests of this module do not see: a test to write, or a change that
changes nothing, which tests/equivalents.py then explains.

Modules whose record is current are left out, so that a run that was stopped goes on where it
was, and a run after a change does only what has changed. --again does them anyway, --survivors
tries only what survived, after a test was added. Results are kept in results/mutants.json.

One process has imported PyTorch and forks for each change: a second or so instead of ten.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import stamps

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tinyattn"
RECORD = ROOT / "results" / "mutants.json"
SEED = 0
MAX_BYTES = 6 * 2**30  # a changed number can ask for any amount of memory
BROKEN, ELSEWHERE, TIMEOUT = 70, 71, 72  # exit codes that pytest does not use
HEAVY = ("torch", "numpy", "hypothesis", "matplotlib", "playwright", "IPython", "sklearn")
# 4 is a verdict: pytest understood its options before, so it is a conftest.py that does not load.
NO_VERDICT = {
    5: "no test ran",
    BROKEN: "pytest itself ended in an error",
    ELSEWHERE: "the tests imported another copy of the package",
}

# The tests of a module are those of its own name, then these, the quickest first.
MORE_TESTS = {
    "checks.py": ["test_dense.py", "transformer/test_attention.py"],
    "places.py": ["test_groups.py"],
    "groups.py": ["test_engine.py"],
    "padding.py": ["transformer/test_padding.py", "content/test_padding.py"],
    "patterns/base.py": [
        "patterns/test_whole_numbers.py",
        "patterns/test_atoms.py",
        "patterns/test_composition.py",
    ],
    "patterns/grid.py": ["patterns/test_composition.py"],
    "patterns/random.py": ["patterns/test_composition.py"],
    "patterns/flex.py": ["patterns/test_flex.py"],
    "patterns/global_tokens.py": ["patterns/test_global.py", "patterns/test_composition.py"],
    "patterns/matched.py": ["patterns/test_matched.py"],
    "patterns/pieces.py": [
        "patterns/test_atoms.py",
        "patterns/test_named.py",
        "patterns/test_composition.py",
    ],
    "patterns/positional.py": [
        "patterns/test_atoms.py",
        "patterns/test_base.py",
        "patterns/test_composition.py",
    ],
    "patterns/tree.py": ["patterns/test_composition.py"],
    "families/shapes.py": ["families/test_autocast.py"],
    "content/block_pairs.py": ["content/test_sorting.py", "content/test_sinkhorn.py"],
    "content/chunks.py": ["content/test_lsh.py", "content/test_routing.py"],
    "content/clusters.py": ["content/test_routing.py"],
    "content/kmeans.py": ["content/test_routing.py"],
    "content/membership.py": ["content/test_routing.py"],
    "content/permutations.py": ["content/test_sorting.py", "content/test_sinkhorn.py"],
    "analysis/layer_claims.py": ["analysis/test_support.py"],
    "analysis/claims.py": ["analysis/test_ledger.py", "analysis/test_pattern_claims.py"],
    "exercises/base.py": ["exercises/test_parts.py"],
    "exercises/state.py": ["exercises/test_run.py", "exercises/test_base.py"],
    "exercises/museum/base.py": ["exercises/test_museum.py"],
    "show/palette.py": ["show/test_studio.py"],
    "show/settings.py": ["show/test_studio.py"],
    "transformer/cache.py": [
        "transformer/test_refused_calls.py",
        "transformer/test_rolling_cache.py",
        "transformer/test_attention.py",
    ],
    "transformer/attention.py": [
        "transformer/test_cache.py",
        "transformer/test_rolling_cache.py",
        "transformer/test_patterns_in_models.py",
    ],
    "transformer/blocks.py": ["transformer/test_padding.py"],
    "transformer/embedding.py": [
        "transformer/test_axial.py",
        "transformer/test_tree_layers.py",
        "transformer/test_models.py",
    ],
    "transformer/models.py": [
        "transformer/test_cache.py",
        "transformer/test_generate.py",
        "transformer/test_patterns_in_models.py",
    ],
    "transformer/tree.py": ["transformer/test_tree_layers.py"],
}
# Modules that are not tried, and why; the appendix says so.
TRAINS = "Their tests train models, which takes minutes"
CHECKS = "Their tests check all listed answers of a chapter's exercises, which takes minutes"
EXPERIMENTS = """
    __main__ characters dates digits distant_copy duplication few_digits hidden_graph
    long_characters moving_block pixels recall retrieval routed_characters
"""
CHAPTERS = """
    atomic attention clustering comparison complexity compound extended learned lsh taxonomy
    transformer usage
"""
WRONG = "Exhibits of the museum, wrong on purpose: a change makes them wrong in another way"
LEFT_OUT = {
    **{f"experiments/{name}.py": TRAINS for name in EXPERIMENTS.split()},
    **{f"exercises/{name}.py": CHECKS for name in CHAPTERS.split()},
    **{f"exercises/museum/{name}.py": WRONG for name in ("decoding", "layers", "masks")},
}
NEEDS_SHAPE_CHECKS = "not shapes_are_checked"  # here the tests run without those checks


@dataclass(frozen=True)
class Mutant:
    """One change: which operator made it, where, and the module's text with it."""

    operator: str
    line: int
    old: str
    new: str
    source: str


# ---------------------------------------------------------------------------- what to change


def positions(source: str) -> list[list[tuple[str, int, int]]]:
    """For each place where something can be changed: (operator, occurrence, line) of the changes.

    Left out: annotations, which do nothing at run time, and `is` for `==`, which is the same for
    the objects that the package compares.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    silent = annotated(source)
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
    for name in sorted(operator_names()):
        if "Variable" in name or name.endswith(("_Is", "_IsNot")):
            continue
        starts = [at[0] for node in nodes for at in get_operator(name)().mutation_positions(node)]
        for occurrence, place in enumerate(starts):
            if not any(start <= tuple(place) < end for start, end in silent):
                found.setdefault(tuple(place), []).append((name, occurrence, place[0]))
    return list(found.values())


def annotated(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where annotations stand."""
    nodes = ast.walk(ast.parse(source))
    found = [getattr(node, field, None) for node in nodes for field in ("annotation", "returns")]
    return [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in found
        if node is not None
    ]


def mutant(source: str, name: str, occurrence: int, line: int) -> Mutant | None:
    """The change, or None if it is none or no Python."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    text = mutate_code(source, get_operator(name)(), occurrence)
    try:
        same = text is None or ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    if same:
        return None
    diff = list(difflib.ndiff(source.splitlines(), text.splitlines()))
    old, new = (
        " ".join(one[2:].strip() for one in diff if one.startswith(sign)).strip()
        for sign in ("- ", "+ ")
    )
    return Mutant(name.removeprefix("core/"), line, old, new, text)


def draw(source: str, module: str, size: int) -> tuple[list[Mutant], int]:
    """A sample of different mutants of a module, and how many changes it was drawn from.

    One change of each place, places in random order; then a second of each, and so on: a `+`, for
    which there are eleven other operators, counts no more than a condition or a number.
    """
    random_order = random.Random(f"{SEED} {module}")
    places = [random_order.sample(changes, len(changes)) for changes in positions(source)]
    random_order.shuffle(places)
    found: dict[str, Mutant] = {}
    for round_of_all in itertools.zip_longest(*places):
        for change in filter(None, round_of_all):
            if len(found) < size and (one := mutant(source, *change)) is not None:
                found.setdefault(one.source, one)
    return list(found.values()), sum(map(len, places))


# -------------------------------------------------------------------------- whether it is seen


def tests_of(module: str) -> list[str]:
    """The tests that speak of a module, as paths in tests/."""
    folder, _, name = module.rpartition("/")
    own = f"{folder}/test_{name}".lstrip("/")
    found = [own] if (ROOT / "tests" / own).is_file() else []
    return [*found, *(test for test in MORE_TESTS.get(module, []) if test != own)]


def modules() -> list[str]:
    """Every module of the package that is tried: with tests of its own, and not left out."""
    return [name for name in _files() if tests_of(name) and name not in LEFT_OUT]


def untried(record: dict) -> dict[str, str]:
    """The modules that a record says nothing of, and why; `__init__.py` only imports."""
    names = [name for name in _files() if not name.endswith("__init__.py")]
    return {
        name: LEFT_OUT.get(name, "Not tried yet") for name in names if name not in record["modules"]
    }


def _files() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def run(
    tests: list[str], copy: Path, seconds: float, report: Path | None = None, only: str = ""
) -> int:
    """Run tests on a copy of the package in a process of its own; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            code = _run_here(tests, copy, report, only)
        finally:
            os._exit(code)
    waited, before = 0.0, time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if waited > seconds:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TIMEOUT
        time.sleep(0.02)
        now = time.monotonic()
        waited += min(now - before, 1.0)  # while the whole run was halted, no test was slow
        before = now


def _run_here(tests: list[str], copy: Path, report: Path | None, only: str) -> int:
    import resource  # which Windows does not have, nor does it fork

    import pytest

    os.setsid()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.path.insert(0, str(copy))
    os.chdir(ROOT)
    options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-x", "-q"]
    wanted = " and ".join(f"({words})" for words in (NEEDS_SHAPE_CHECKS, only) if words)
    options += ["--doctest-modules", "--tb=no", "-k", wanted]
    arguments = [*options, "-c", str(ROOT / "pyproject.toml"), *tests]
    code = int(pytest.main(arguments, plugins=[FirstExample()]))
    imported = sys.modules.get("tinyattn")
    if imported is not None and Path(imported.__file__).parents[1] != copy:
        return ELSEWHERE
    if report is not None:
        report.write_text(json.dumps(sorted(sys.modules)), encoding="utf-8")
    return code


class FirstExample:
    """For pytest: the first example that fails is enough, hypothesis looks for no smaller one."""

    def pytest_configure(self) -> None:  # after tests/conftest.py
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings.default, phases=phases)
        settings.load_profile("mutants")


def warm(names: list[str]) -> None:
    """Import what the tests imported, but for the package and the tests themselves."""
    for name in names:
        if name.split(".")[0] in HEAVY:
            with contextlib.suppress(Exception):  # what loads only in a certain order
                import_module(name)


class Bench:
    """A copy of the package in which one module is changed again and again."""

    def __init__(self, module: str, folder: Path, only: str = "") -> None:
        self.only = only
        self.copy = folder / "copy"
        shutil.copytree(PACKAGE, self.copy / "tinyattn", ignore=shutil.ignore_patterns("__pyc*"))
        self.file = self.copy / "tinyattn" / module
        self.healthy = self.file.read_text(encoding="utf-8")
        # its examples last: collected first, they would be a second copy of the module
        self.tests = [*(str(ROOT / "tests" / test) for test in tests_of(module)), str(self.file)]
        report = folder / "modules.json"
        code = run(self.tests, self.copy, 600, report, only)
        if code:
            raise RuntimeError(f"the tests of {module} end with {code} without any change")
        warm(json.loads(report.read_text(encoding="utf-8")))
        start = time.monotonic()
        code = run(self.tests, self.copy, 600, None, only)
        self.seconds = time.monotonic() - start
        if code:
            raise RuntimeError(f"the tests of {module} end with {code} the second time")

    def verdict(self, one: Mutant) -> str:
        """What becomes of a change: "survived", "killed", or "timeout", which is killed too."""
        self.file.write_text(one.source, encoding="utf-8")
        code = run(self.tests, self.copy, 10 + 4 * self.seconds, None, self.only)
        if code in NO_VERDICT:
            raise RuntimeError(f"{NO_VERDICT[code]}, with {one.old!r} made {one.new!r}")
        return {0: "survived", TIMEOUT: "timeout"}.get(code, "killed")


# ---------------------------------------------------------------------------- what is written


def read() -> dict:
    if RECORD.is_file():
        return json.loads(RECORD.read_text(encoding="utf-8"))
    return {"tool": "", "seed": SEED, "modules": {}}


def write(record: dict) -> None:
    """Store the record, every survivor with what tests/equivalents.py says of it."""
    sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]
    from tests.equivalents import EQUIVALENTS

    why = {(one.file, one.old, one.new): one.why for one in EQUIVALENTS}
    for name, module in record["modules"].items():
        for one in module["survived"]:
            one["why"] = why.get((name, one["old"].strip(), one["new"].strip()))
    record["modules"] = dict(sorted(record["modules"].items()))
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    RECORD.write_text(text, encoding="utf-8")


def try_module(module: str, size: int, kept: Path) -> dict:
    """Try a sample of the mutants of a module. Verdicts go to `kept` one by one, and stay."""
    source = (PACKAGE / module).read_text(encoding="utf-8")
    sample, changes = draw(source, module, size)
    known = dict(_kept(kept))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(module, Path(folder))
        for one in sample:
            if one.source not in known:
                known[one.source] = bench.verdict(one)
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([one.source, known[one.source]]) + "\n")
    verdicts = [known[one.source] for one in sample]
    survivors = [one for one in sample if known[one.source] == "survived"]
    kept.unlink(missing_ok=True)
    return {
        "tests": tests_of(module),
        "changes": changes,
        "sample": len(sample),
        "killed": len(sample) - len(survivors),
        "timeouts": verdicts.count("timeout"),
        "survived": [_plain(one) for one in survivors],
        "seconds": round(time.monotonic() - start),
        "stamp": stamps.stamp([PACKAGE / module]),
    }


def _kept(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield tuple(json.loads(line))


def _plain(one: Mutant) -> dict:
    return {"operator": one.operator, "line": one.line, "old": one.old, "new": one.new}


def try_survivors(module: str, record: dict, only: str) -> dict:
    """Try again what survived. What was killed once stays killed: tests only grow.

    With `only`, an expression of pytest's -k, just the tests that were added are run.
    """
    source = (PACKAGE / module).read_text(encoding="utf-8")
    sample, _ = draw(source, module, record["sample"])
    before = {(one["old"], one["new"]) for one in record["survived"]}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(module, Path(folder), only)
        again = [one for one in sample if (one.old, one.new) in before]
        left = [one for one in again if bench.verdict(one) == "survived"]
    return record | {
        "tests": tests_of(module),
        "killed": record["sample"] - len(left),
        "survived": [_plain(one) for one in left],
        "stamp": stamps.stamp([PACKAGE / module]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only modules whose path holds one of these")
    parser.add_argument("--sample", type=int, default=60, help="changes tried in a module")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none after this")
    parser.add_argument("--again", action="store_true", help="also modules that are current")
    parser.add_argument("--survivors", action="store_true", help="only what survived before")
    parser.add_argument("--only", default="", help="with --survivors: run just these tests")
    parser.add_argument("--explain", action="store_true", help="only add tests/equivalents.py")
    options = parser.parse_args()
    record = read()
    end = time.monotonic() + 60 * options.minutes
    state = ROOT / "_build" / "mutants"
    state.mkdir(parents=True, exist_ok=True)
    for module in [] if options.explain else modules():
        if options.words and not any(word in module for word in options.words):
            continue
        before = record["modules"].get(module)
        if before and stamps.changed(before["stamp"]):
            before = None
        survived = bool(before and before["survived"])
        if not (survived if options.survivors else before is None or options.again):
            continue
        if time.monotonic() > end:
            print("out of time: the next run goes on here")
            break
        if options.survivors:
            new = try_survivors(module, before, options.only)
        else:
            code = stamps.digest(PACKAGE / module)
            new = try_module(module, options.sample, state / f"{module.replace('/', '.')}.{code}")
        record["modules"][module] = new
        record["tool"] = f"cosmic-ray {version('cosmic-ray')}"
        write(record)
        score = f"{new['killed']} of {new['sample']} killed, drawn from {new['changes']}"
        print(f"{module:32} {score}, {new['seconds']} s", flush=True)
        for one in new["survived"]:
            print(f"    {one['line']:4}  {one['old']}\n{'':10}{one['new']}", flush=True)
    write(record)


if __name__ == "__main__":
    main()
