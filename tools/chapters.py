"""Run chapters and compare what they print with what is stored, within budgets.

    python tools/chapters.py book/*.ipynb
    python tools/chapters.py --record book/*.ipynb

Outputs are compared where they were stored: on Python 3.11 with the pinned torch. Elsewhere the
last digits may differ, so cells only have to run and their asserts to hold. Each chapter's
seconds and its kernel's peak memory are printed at the end; --record also writes them to
results/chapters.json, from where they come to the last lines of a chapter's page.

On Linux no process of the run gets more than 2 GiB, which is what Binder gives a reader.
"""

import json
import os
import platform
import re
import sys
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

import notebooks

ROOT = Path(__file__).parents[1]
BUDGET_SECONDS = 60
MAX_SECONDS = 3 * BUDGET_SECONDS  # two chapters share the machine, and CI machines are slow
MAX_BYTES = 2**30
BINDER_BYTES = 2 * 2**30
BOOK = ROOT / "book"
RECORD = ROOT / "results" / "chapters.json"
RECORD_IT = "TINYATTN_RECORD_CHAPTERS"  # tells pytest's main process, and is no option of pytest


def main(arguments: list[str]) -> int:
    limit_memory(BINDER_BYTES)
    if "--record" in arguments:
        os.environ[RECORD_IT] = "1"
    return pytest.main(
        [
            "--nbval" if stores_the_same_outputs() else "--nbval-lax",
            "--nbval-current-env",
            f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}",
            "--nbval-cell-timeout=300",
            "-n2",
            "--dist=loadfile",
            "-p",
            Path(__file__).stem,  # this file's hooks, also in the workers
            *[argument for argument in arguments if argument != "--record"],
        ]
    )


def limit_memory(n_bytes: int) -> None:
    """Let this process and those it starts, kernels among them, hold so many bytes each.

    Counted is what is written to (RLIMIT_DATA), which holds more than what is resident: a chapter
    that runs under this limit fits. The address space (RLIMIT_AS) says nothing of the sort, since
    libraries map far more than they touch.
    """
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        if most == resource.RLIM_INFINITY or most > n_bytes:
            resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


def stores_the_same_outputs() -> bool:
    pin = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return sys.version_info[:2] == (3, 11) and version("torch").split("+")[0] == pin[1]


# Hooks of pytest: in the workers, note each cell's peak; in the main process, sum up.

seconds: dict[str, float] = defaultdict(float)
peaks: dict[str, int] = defaultdict(int)


def pytest_configure() -> None:
    """Run cells as Jupyter does: only what is in the history can silence its value with `;`."""
    from nbval.kernel import RunningKernel  # pytest wants to load nbval before anybody else

    def execute(kernel: RunningKernel, source: str, allow_stdin: bool | None = None) -> str:
        return kernel.kc.execute(source, allow_stdin=allow_stdin, stop_on_error=False)

    RunningKernel.execute_cell_input = execute


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    kernel = getattr(item.parent, "kernel", None)
    if call.when == "call" and kernel is not None:
        report.peak_bytes = peak_bytes(kernel.km.provisioner.pid)
    return report


def peak_bytes(pid: int) -> int:
    """The most memory that a process has held, or what it holds now where nobody keeps count."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return psutil.Process(pid).memory_info().rss


def pytest_runtest_logreport(report) -> None:
    chapter = report.nodeid.split("::")[0]
    seconds[chapter] += report.duration
    peaks[chapter] = max(peaks[chapter], getattr(report, "peak_bytes", 0))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus) -> None:
    if exitstatus == 0 and over_budget():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if exitstatus == 0 and os.environ.get(RECORD_IT) and not hasattr(session.config, "workerinput"):
        record(seconds, peaks)


def record(seconds: dict[str, float], peaks: dict[str, int]) -> None:
    """Add what was measured to what is stored of other chapters."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    versions = {"Python": platform.python_version(), "PyTorch": version("torch").split("+")[0]}
    for chapter, value in seconds.items():
        known[chapter] = {
            "seconds": round(value, 1),
            "mebibytes": round(peaks[chapter] / 2**20),
            "date": datetime.now(UTC).date().isoformat(),
            "versions": versions,
            "code": notebooks.code_digest(notebooks.read(ROOT / chapter)),
        }
    text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
    RECORD.write_text(f"{text}\n", encoding="utf-8")


def untimed() -> list[str]:
    """Notebooks of the book whose code is not the one that was timed: their pages name no time."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    found = {path.relative_to(ROOT).as_posix(): path for path in sorted(BOOK.rglob("*.ipynb"))}
    return [
        name
        for name, path in found.items()
        if known.get(name, {}).get("code") != notebooks.code_digest(notebooks.read(path))
    ]


def over_budget() -> list[str]:
    found = [f"{c} took {s:.0f} s of {MAX_SECONDS}" for c, s in seconds.items() if s > MAX_SECONDS]
    gib = 2**30
    found += [f"{c} held {b / gib:.2f} GiB of 1" for c, b in peaks.items() if b > MAX_BYTES]
    return found


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.section(f"budgets: {BUDGET_SECONDS} s and 1 GiB a chapter")
    for chapter in sorted(seconds):
        peak = f"{peaks[chapter] / 2**20:5.0f} MiB"
        terminalreporter.line(f"{seconds[chapter]:5.1f} s  {peak}  {chapter}")
    for problem in over_budget():
        terminalreporter.line(f"OVER BUDGET: {problem}", red=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
