"""Grade one submission in the process that this is called in, after limiting that process.

tools/autograde.py forks such a process for each submission, with nbgrader already imported.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute

from course import configuration, convert
from shielded_execute import ShieldedExecute

LARGEST_FILE = 50_000_000  # bytes that a submission may write
KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "OMP_NUM_THREADS")
CPU_SECONDS = "cpu_seconds"  # a file beside the course
TOKEN = "TINYATTN_GRADING"  # in the environment of every kernel, and of what it starts


@dataclass(frozen=True)
class Limits:
    """What one submission may use: seconds for a cell and for all, memory of a process."""

    cell_seconds: int = 30
    seconds: int = 300
    memory_gib: float = 6.0


def grade_alone(alone: Path, assignment: str, student: str, limits: Limits, token: str) -> None:
    """Let nbgrader grade the only submission of a course; what it says goes to a file beside it."""
    _look_only_here(alone.parent, token)
    _limit(limits)
    config = configuration(alone)
    config.Execute.timeout = limits.cell_seconds
    steps = [
        ShieldedExecute if step is Execute else step
        for step in Autograde.autograde_preprocessors.default_args[0]
    ]
    convert(
        Autograde, alone, assignment, student, config, autograde_preprocessors=steps, force=True
    )
    (alone.parent / CPU_SECONDS).write_text(f"{cpu_seconds():.2f}")


def cpu_seconds() -> float:
    """Of this process and the kernel that it has ended."""
    import resource

    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _look_only_here(folder: Path, token: str) -> None:
    """Nothing of the teacher's environment is passed on: no folders, no keys, no terminal."""
    home = folder / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, HOME=str(home), TMPDIR=str(home), IPYTHONDIR=str(home))
    os.environ[TOKEN] = token
    os.chdir(home)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _limit(limits: Limits) -> None:
    import resource  # not on Windows

    for what, most in (
        (resource.RLIMIT_AS, int(limits.memory_gib * 2**30)),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
