"""Bytes, and seconds of a schedule: each in a process of its own, forked from an idle one.

`python -m benchmarks.memory '[job, ...]'` prints a cell for each job, as a line of JSON. The
allocator is told to give memory back at once, or the peak would hold what earlier calls left.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.cases import LAYOUTS, PATTERNS, THREADS, tensors
from benchmarks.peers import ALL, LIBRARIES
from benchmarks.timing import attempt, cell, runner
from tinyattn.analysis.measure import peak_memory
from tinyattn.groups import lowering, schedule

GIVE_BACK = {
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_ARENA_MAX": "2",
}
WARM_UP_N = 1024
SCHEDULES = 3  # how often one is built
A_SLOW_SCHEDULE = 2.0  # seconds; such a one is built once


def measure(jobs: list[dict]) -> Iterator[dict]:
    """Run jobs, cells without their numbers, and yield them with numbers or an error."""
    if not Path("/proc/self/clear_refs").exists():
        yield from ({**job, "error": "not measured: only Linux counts peaks"} for job in jobs)
        return
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps(jobs)]
    with subprocess.Popen(
        command, env={**os.environ, **GIVE_BACK}, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise RuntimeError(f"python -m benchmarks.memory ended with {process.returncode}")


def peak_of_call(job: dict) -> dict:
    """Bytes by which one call raises the memory of its process; its inputs are there before."""
    make = ALL[job["case"]].make
    runner(make(*tensors(WARM_UP_N)), job["mode"])()  # libraries and threads start here
    ready = make(*tensors(job["n"]))
    work, _, who = job["case"].partition("/")
    if who == "tinyattn" and work in PATTERNS:
        schedule(PATTERNS[work](job["n"]), job["n"])
    elif who == "tinyattn" and work in LAYOUTS:  # lowered by the first call
        runner(ready, "forward")()
    call = runner(ready, job["mode"])
    return {"bytes": peak_memory(call)}


def cost_of_schedule(job: dict) -> dict:
    """Seconds to lower a rule that was never seen before, and the bytes that takes."""
    work, n = PATTERNS[job["case"].split("/")[0]], job["n"]
    schedule(work(WARM_UP_N), WARM_UP_N)
    seconds: list[float] = []

    def build() -> object:
        start = time.perf_counter()
        groups = schedule(work(n), n)
        seconds.append(time.perf_counter() - start)
        return groups

    grown = peak_memory(build)
    while len(seconds) < SCHEDULES and seconds[0] < A_SLOW_SCHEDULE:
        lowering.cache_clear()
        build()
    return {"seconds": statistics.median(seconds), "fastest": min(seconds), "bytes": grown}


def in_child(action: Callable[[], dict]) -> dict:
    """Run an action in a fork of this process; what goes wrong there is its `error`."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            torch.set_num_threads(THREADS)
            found = attempt(action)
            found = {"error": found} if isinstance(found, str) else found
            os.write(writes, json.dumps(found).encode())
        finally:
            os._exit(0)  # whatever happened: nothing of the parent's runs twice
    os.close(writes)
    with os.fdopen(reads, encoding="utf-8") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = f"failed: its process ended early, with status {os.waitstatus_to_exitcode(status)}"
    return json.loads(said) if said else {"error": ended}


def main(jobs: list[dict]) -> None:
    for library in {LIBRARIES[job["case"]] for job in jobs if job["case"] in LIBRARIES}:
        attempt(lambda library=library: importlib.import_module(library))  # once, for all children
    measures = {"memory": peak_of_call, "schedule": cost_of_schedule}
    for job in jobs:
        numbers = in_child(lambda job=job: measures[job["kind"]](job))
        print(json.dumps(cell(**job, **numbers)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
