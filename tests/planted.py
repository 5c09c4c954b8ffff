"""Plant faults in the package and see each one found.

A test suite is worth the faults it finds. tests/faults lists plausible ones, many of them made by
somebody in a published library. `python tests/planted.py [WORD ...]` plants them one at a time
(those whose file or description holds a word) in a copy of the package, runs the named test there,
and prints a table; every test_planted.py does the same and fails for a fault that survives, and for
a line that no longer stands in the package exactly once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tinyattn"
sys.path[0:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # when run as a script

from tests.faults import FAULTS, Fault

PARTS = {"dense": "core", "checks": "core", "patterns": "core"}
PARTS |= dict.fromkeys(["data", "ngram", "training", "experiments"], "experiments")


ALL = "TINYATTN_ALL_FAULTS"  # in the environment: replay every fault, as `make nightly` does
ONE_OF = 12


def chosen() -> list[Fault]:
    """One of twelve faults of each file, the first always, or all if the environment asks for it."""
    if os.environ.get(ALL):
        return FAULTS
    seen: dict[str, int] = {}
    found = []
    for fault in FAULTS:
        seen[fault.file] = seen.get(fault.file, -1) + 1
        if seen[fault.file] % ONE_OF == 0:
            found.append(fault)
    return found


def groups(faults: Iterable[Fault] = FAULTS) -> dict[str, list[Fault]]:
    """Faults by part of the package: those of one share a process, which imports torch once."""
    parts: dict[str, list[Fault]] = {}
    for fault in faults:
        name = fault.file.split("/")[0].removesuffix(".py")
        parts.setdefault(PARTS.get(name, name), []).append(fault)
    return parts


def replay(faults: list[Fault]) -> dict[Fault, str]:
    """What became of each fault: "killed", or why not.

    The tests pass first in a copy of the package without a fault, so that a fault that is killed
    was killed for itself.
    """
    verdicts: dict[Fault, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        healthy = _copy(Path(folder), "healthy")
        runs = [{"source": str(healthy), "tests": sorted({fault.test for fault in faults})}]
        planted = []
        for number, fault in enumerate(faults):
            times = (PACKAGE / fault.file).read_text(encoding="utf-8").count(fault.old)
            if times != 1:
                verdicts[fault] = f"its line stands {times} times in {fault.file}"
                continue
            source = _copy(Path(folder), str(number))
            file = source / "tinyattn" / fault.file
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
            runs.append({"source": str(source), "tests": [fault.test]})
            planted.append(fault)
        report = Path(folder, "report.json")
        process = subprocess.run(
            [sys.executable, __file__, "--worker", str(report)],
            input=json.dumps(runs),
            cwd=ROOT,
            env={
                **os.environ,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        if not report.exists():
            raise RuntimeError(f"replaying stopped early:\n{process.stdout[-3000:]}")
        outcomes = json.loads(report.read_text(encoding="utf-8"))
    if outcomes[0] != "survived":
        raise RuntimeError(f"tests fail without any fault: {outcomes[0]}\n{process.stdout[-3000:]}")
    return verdicts | dict(zip(planted, outcomes[1:], strict=True))


def _copy(folder: Path, name: str) -> Path:
    source = folder / name
    shutil.copytree(PACKAGE, source / "tinyattn", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def _work(report: Path) -> None:
    """In a process of its own: run tests against one copy of the package after the other."""
    import pytest

    outcomes = []
    sys.path.insert(0, str(ROOT))
    for run in json.load(sys.stdin):
        for name in [name for name in sys.modules if name.split(".")[0] in ("tinyattn", "tests")]:
            del sys.modules[name]
        sys.path.insert(0, run["source"])
        tests = [str(ROOT / "tests" / test) for test in run["tests"]]
        watch = _Watch()
        # without the shape checks of the usual run: the test itself has to notice
        options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-x", "-q"]
        code = pytest.main([*options, "--no-header", "--tb=line", *tests], plugins=[watch])
        imported = (
            Path(sys.modules["tinyattn"].__file__).parents[1] if "tinyattn" in sys.modules else None
        )
        if imported != Path(run["source"]):
            outcomes.append(f"tests imported another tinyattn: {imported}")
        elif watch.broken:
            outcomes.append(f"broken: {watch.broken[0]}")
        elif watch.failed:
            outcomes.append("killed")
        elif watch.passed:
            outcomes.append("survived")
        else:
            outcomes.append(f"no test ran: pytest ended with {code!r}")
        sys.path.remove(run["source"])
    report.write_text(json.dumps(outcomes), encoding="utf-8")


class _Watch:
    """A pytest plugin that tells a failing test from one that cannot run."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []
        self.broken: list[str] = []

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.broken.append(f"{report.nodeid} cannot be collected")

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call":
            (self.failed if report.failed else self.passed).append(report.nodeid)
        elif report.failed:
            self.broken.append(f"{report.nodeid} fails in {report.when}")


def main(words: list[str]) -> int:
    chosen = [
        fault
        for fault in FAULTS
        if not words or any(word in f"{fault.file} {fault.what}" for word in words)
    ]
    survivors = 0
    for faults in groups(chosen).values():
        file = None
        for fault, verdict in replay(faults).items():
            if fault.file != file:
                file = fault.file
                print(f"\n{file}")
            survivors += verdict != "killed"
            print(f"  {verdict:8}  {fault.what}\n{'':12}{fault.test}", flush=True)
    print(f"\n{len(chosen)} faults planted, {survivors} not killed")
    return survivors


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _work(Path(sys.argv[2]))
    else:
        raise SystemExit(1 if main(sys.argv[1:]) else 0)
