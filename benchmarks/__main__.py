"""Measure, store, and say which bars are met.

python -m benchmarks                            everything, about 20 minutes
python -m benchmarks --quick                    a look: short sequences, nothing is stored
python -m benchmarks --only window --n 16384    these cells again; all others stay as they are
python -m benchmarks --report                   the tables of the last run
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import memory, shares, timing
from benchmarks.bars import AT, MILLION
from benchmarks.cases import DENSE, PATTERNS, THREADS, Case, ours
from benchmarks.peers import ALL, LIBRARIES, chosen
from benchmarks.report import line, summary, tables
from benchmarks.results import FILE, Results, machine

KINDS = ("memory", "schedule", "shares", "time")
LENGTHS = {
    "time": [2**e for e in range(10, 17)],  # 1k to 64k
    "memory": [2**10, 2**12, 2**14, 2**16],
    "schedule": [2**10, 2**12, 2**14, 2**16, MILLION],
    "shares": [AT],
}
PEERS_MEMORY_AT = [2**14]
QUICK = [1024, 2048]
OF_A_MILLION = ("longformer", "bigbird")  # whose schedules are built for 1,048,576 tokens


def repeats(n: int) -> int:
    """Turns for each case; more where bars are, fewer where a turn takes a minute."""
    return 7 if n <= 4096 else 5 if n <= 16_384 else 3


def measure(args: argparse.Namespace) -> Iterator[dict]:
    """Cells, as they are measured."""
    cases = chosen(args.only)
    jobs = [*memory_jobs(cases, args), *schedule_jobs(cases, args)]
    if jobs:
        yield from memory.measure(jobs)
    for n in lengths(args, "shares"):
        own = [case for case in cases if case.name not in LIBRARIES and case.runs_at(n)]
        yield from shares.measure(own, n, args.modes)
    if not any(case.name == DENSE for case in cases):
        cases = [ALL[DENSE], *cases]  # ratios need it
    for n in lengths(args, "time"):
        running = [case for case in cases if case.runs_at(n)]
        turns = args.repeats or (2 if args.quick else repeats(n))
        yield from timing.measure(running, n, args.modes, turns)


def lengths(args: argparse.Namespace, kind: str) -> list[int]:
    if kind not in args.kinds:
        return []
    return args.n or (QUICK if args.quick else LENGTHS[kind])


def memory_jobs(cases: list[Case], args: argparse.Namespace) -> Iterator[dict]:
    for n in lengths(args, "memory"):
        for mode in args.modes:
            for case in cases:
                wanted = args.n or n in PEERS_MEMORY_AT or case.name not in LIBRARIES
                if wanted and case.runs_at(n):
                    yield timing.cell("memory", case.name, n, mode)


def schedule_jobs(cases: list[Case], args: argparse.Namespace) -> Iterator[dict]:
    for n in lengths(args, "schedule"):
        for case in cases:
            lowered = case.name == ours(case.work) and case.work in PATTERNS
            if lowered and (case.runs_at(n) or case.work in OF_A_MILLION):
                yield timing.cell("schedule", case.name, n)


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    out = args.out or (None if args.quick else FILE)
    if args.report:
        print(tables(Results.load(args.out or FILE)))
        return 0
    results = Results.to_continue(out, machine()) if out else Results(machine())
    named = {case.name for case in chosen(args.only)}
    start = time.perf_counter()
    for cell in measure(args):
        print(line(cell), flush=True)
        if cell["case"] in named:
            results.add(cell)
            if out:
                results.save(out, summary(results))  # at once: a run that is stopped is not lost
    print("\n" + tables(results))
    print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes")
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="n of 1k and 2k, two turns, no file")
    parser.add_argument("--report", action="store_true", help="only show what is stored")
    parser.add_argument("--only", nargs="+", help=f"work or cases: {', '.join(PATTERNS)}, dense, …")
    parser.add_argument("--n", nargs="+", type=int, help="sequence lengths")
    parser.add_argument("--modes", nargs="+", choices=timing.MODES, default=list(timing.MODES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--repeats", type=int, help="turns for each case")
    parser.add_argument("--out", type=Path, help="where to store, results/bench.json if not given")
    args = parser.parse_args(arguments)
    try:
        chosen(args.only)
    except ValueError as error:
        parser.error(str(error))
    return args


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    sys.exit(main())
