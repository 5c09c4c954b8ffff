"""Run the suite again and again under other conditions, and compare what each test says.

    python tools/flaky.py [package] [programs] [--more 10] [--processes 2]
    python tools/flaky.py --complete     fails while a suite lacks a run of the ten

`programs` are the tests that start browsers, JupyterLab, pytest or an installer; one of them takes
many times as long as one of `package`, which is all the others.
Each run has another order of files and of the tests in each, a thread count, and a set of the
processor's instructions, which changes last digits. A test that passes here and fails there is
told, with both conditions. Outcomes stay in _build/flaky, and a digest of them with what was found
in results/flaky.json, until the package or the suite's tests change: some runs can be done in one
night, and others in the next or on another machine, which leaves out those that the record has.

The same file is the plugin of pytest that puts tests into the order of a run and notes outcomes.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import stamps

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "flaky.json"


@dataclass(frozen=True)
class Run:
    """Conditions: `order` is "as written", "reversed", or the seed of a shuffle."""

    order: str
    threads: int
    instructions: str


STARTS_PROGRAMS = [
    "tests/site",
    "tests/tools",
    "tests/test_package.py",
    "tests/test_planted.py",
    *(f"tests/{part}/test_planted.py" for part in ("analysis", "content", "show", "transformer")),
    "tests/exercises/test_assignments.py",
    "tests/exercises/test_grading.py",
    "tests/show/test_pixels_in_browser.py",
    "tests/show/test_studio_in_browser.py",
    "tests/show/test_studio_with_a_kernel.py",
    "tests/show/test_study_in_browser.py",
    "tests/show/test_widgets_in_browser.py",
    "tests/show/test_widgets_in_jupyterlab.py",
]
SUITES = {
    "package": [f"--ignore={path}" for path in STARTS_PROGRAMS],
    "programs": STARTS_PROGRAMS,
}
RUNS = [
    Run("as written", 1, "default"),
    Run("reversed", 2, "avx2"),
    *(
        Run(str(seed), threads, instructions)
        for seed, (threads, instructions) in enumerate(
            itertools.product((1, 2), ("avx2", "default", "avx512", "default")), start=1
        )
    ),
]

# --------------------------------------------------------------------------- the plugin

outcomes: dict[str, str] = {}


def in_order(names: Sequence[str], order: str, pages: Sequence[object] = ()) -> list[int]:
    """Places of test names ("file::test") in a run's order.

    Files stay together, and inside a file the tests of one page, where `pages` names the page that
    a test looks at, or None: each return to a page would open it anew.
    """
    if order == "as written":
        return list(range(len(names)))
    if order == "reversed":
        return list(reversed(range(len(names))))
    chance = random.Random(int(order))
    files: dict[str, dict[object, list[int]]] = {}
    for place, name in enumerate(names):
        page = pages[place] if pages else None
        of_file = files.setdefault(name.split("::")[0], {})
        of_file.setdefault(("alone", place) if page is None else page, []).append(place)
    groups = [list(of_file.values()) for of_file in files.values()]
    chance.shuffle(groups)
    places = []
    for group in groups:
        for together in chance.sample(group, len(group)):
            alone = len(together) == 1  # nothing to draw, and a seed's order is as it was
            places += together if alone else chance.sample(together, len(together))
    return places


def pytest_collection_modifyitems(items: list[Any]) -> None:
    pages = [
        item.callspec.params.get("seen") if hasattr(item, "callspec") else None for item in items
    ]
    order = in_order([item.nodeid for item in items], os.environ["TINYATTN_ORDER"], pages)
    items[:] = [items[place] for place in order]


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        worst = max(outcomes.get(report.nodeid, ""), report.outcome, key=_badness)
        outcomes[report.nodeid] = worst


def _badness(outcome: str) -> int:
    return ["", "passed", "skipped", "failed"].index(outcome)


def pytest_sessionfinish(session: Any) -> None:
    if not hasattr(session.config, "workerinput"):  # the process that hears of all tests
        Path(os.environ["TINYATTN_OUTCOMES"]).write_text(json.dumps(outcomes), encoding="utf-8")


# ----------------------------------------------------------------------------- the runs


def run(one: Run, tests: list[str], processes: int, kept: Path) -> None:
    """Run tests under these conditions; what each said goes to `kept`, with the seconds.

    `tests` are arguments of pytest. As many processes as asked for share the threads.
    """
    processes = max(1, processes // one.threads)
    said = kept.with_suffix(".said")
    environment = {
        **os.environ,
        "TINYATTN_ORDER": one.order,
        "TINYATTN_OUTCOMES": str(said),
        "OMP_NUM_THREADS": str(one.threads),
        "ATEN_CPU_CAPABILITY": one.instructions,
    }
    options = ["-p", "flaky", "-p", "no:cacheprovider", "-q", "--tb=short"]
    if processes > 1:  # left to itself xdist puts the files with most tests first, in every run
        options += ["-n", str(processes), "--dist=loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    start = time.monotonic()
    subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if not said.is_file():
        sys.exit(f"pytest came to no end: {' '.join(command)}")
    content = {"seconds": round(time.monotonic() - start), "said": json.loads(said.read_text())}
    kept.write_text(json.dumps(content), encoding="utf-8")


def differences(runs: list[tuple[Run, dict[str, str]]]) -> list[str]:
    """A sentence for every test that did not say the same in all runs."""
    found = []
    for name in sorted({name for _, said in runs for name in said}):
        said = {one: outcome.get(name, "missing") for one, outcome in runs}
        if len(set(said.values())) > 1:
            cases = (f"{outcome} with {describe(one)}" for one, outcome in said.items())
            found.append(f"{name}: {'; '.join(cases)}")
    return found


def describe(one: Run) -> str:
    threads = f"{one.threads} thread{'s' * (one.threads > 1)}"
    return f"order {one.order}, {threads}, {one.instructions} instructions"


def code_of(suite: str) -> str:
    """A digest of the package and of the tests that a suite's outcomes belong to.

    The suite of the package does not change with tests that it leaves out.
    """
    tests = sorted((ROOT / "tests").rglob("*.py"))
    if suite == "package":
        left_out = [ROOT / path for path in STARTS_PROGRAMS]
        tests = [file for file in tests if not {file, *file.parents} & set(left_out)]
    files = [*stamps.sources(), *tests]
    return hashlib.sha256(" ".join(map(stamps.digest, files)).encode()).hexdigest()[:12]


def gathered(
    tests: list[str], more: int, processes: int, folder: Path, before: dict[str, Any]
) -> dict[str, Any]:
    """What is known of a suite, after `more` runs of it, for the record.

    Outcomes of this machine are in `folder`; `before` is what the record says, perhaps of another
    machine, and is empty where that is of other code.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = {conditions(row): row for row in before.get("runs", [])}
    found = []
    for place, one in enumerate(RUNS):
        kept = folder / f"{place}.json"
        if not kept.is_file():
            if one in rows or not more:
                continue
            more -= 1
            run(one, tests, processes, kept)
        content = json.loads(kept.read_text(encoding="utf-8"))
        found.append((one, content["said"]))
        counts = Counter(content["said"].values())
        said = {"seconds": content["seconds"], "said": digest(content["said"])}
        rows[one] = {**asdict(one), **counts, **said}
    for one, row in rows.items():
        print(f"{describe(one)}: {row}", flush=True)
    differing = list(dict.fromkeys([*before.get("differences", []), *differences(found)]))
    differing = differing or other_outcomes(rows)
    print(*differing, f"{len(differing)} differences between {len(rows)} runs", sep="\n")
    return {"runs": [rows[one] for one in RUNS if one in rows], "differences": differing}


def conditions(row: dict[str, Any]) -> Run:
    """The run that a row of the record is about."""
    return Run(row["order"], row["threads"], row["instructions"])


def digest(said: dict[str, str]) -> str:
    """Of what every test said: two runs with the same one differ in nothing."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


def other_outcomes(rows: dict[Run, dict[str, Any]]) -> list[str]:
    """A sentence for every run that differs from the first of them in some outcome.

    Of runs on other machines the record has no more than the digest.
    """
    known = list(rows.items())
    return [
        f"some test did not say with {describe(one)} what it said with {describe(known[0][0])}"
        for one, row in known[1:]
        if row["said"] != known[0][1]["said"]
    ]


def recorded(name: str, code: str) -> dict[str, Any]:
    """What the record says of a suite if it is of this code, else nothing."""
    suites = json.loads(RECORD.read_text(encoding="utf-8"))["suites"] if RECORD.is_file() else {}
    suite = suites.get(name, {})
    return suite if suite.get("code") == code else {}


def missing() -> list[str]:
    """A sentence for each suite that was not run, as it is now, in all conditions."""
    done = {name: len(recorded(name, code_of(name)).get("runs", [])) for name in SUITES}
    return [
        f"{name} ran in {n} of {len(RUNS)} conditions; `make flaky` runs the others"
        for name, n in done.items()
        if n < len(RUNS)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help=f"{' and '.join(SUITES)}, if none is named")
    parser.add_argument("--more", type=int, default=len(RUNS), help="runs to add to those known")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--complete", action="store_true", help="only say which runs are missing")
    options = parser.parse_args()
    if options.complete:
        found = missing()
        print(*found, sep="\n")
        return int(bool(found))
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"suites are {' and '.join(SUITES)}, got {', '.join(sorted(unknown))}")
    suites = {}
    for name, tests in SUITES.items():
        more = options.more if name in (options.suites or SUITES) else 0
        print(f"{name}:", flush=True)
        code = code_of(name)
        folder = ROOT / "_build" / "flaky" / code / name
        before = recorded(name, code)
        suites[name] = {"code": code, **gathered(tests, more, options.processes, folder, before)}
    record = {"suites": suites, "stamp": stamps.stamp(stamps.sources())}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    RECORD.write_text(text, encoding="utf-8")
    return int(any(suite["differences"] for suite in suites.values()))


if __name__ == "__main__":
    sys.exit(main())
