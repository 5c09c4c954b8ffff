"""Do what Binder does with this repository, without Docker, and run chapters in what comes out.

    python tools/binder_check.py [NOTEBOOK ...]

repo2docker copies the files under version control, sets up the Python of binder/runtime.txt with
JupyterLab in it, and there runs pip on binder/requirements.txt. This does the same in a temporary
folder, in a virtual environment in place of conda's, then runs the named chapters (without names
the two that held most memory before) in it, each process within the 2 GiB that Binder gives a reader. It
prints what everything takes and keeps that in results/binder.json. Not done: the base image, the
start of the container, the network between it and a reader.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import chapters
import stamps

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "binder.json"
N_HEAVIEST = 2
MAX_DISK = 2 * 2**30  # larger images often fail to start
# What an image of repo2docker 2026.4 has in the same environment before it reads our files.
BASE = ["jupyterlab==4.4.9", "notebook==7.4.7", "jupyterhub==5.4.0", "ipykernel==7.0.1"]
BASE += ["ipywidgets==8.1.7", "jupyter-offlinenotebook==0.3.2"]
STEP = ["install", "--no-cache-dir", "-r", "binder/requirements.txt"]
INSTALLED = ["requirements.txt", "pyproject.toml", "binder/requirements.txt", "binder/runtime.txt"]


def heaviest() -> list[str]:
    """The notebooks that held most memory when `make chapters RECORD=--record` ran."""
    recorded = json.loads(chapters.RECORD.read_text(encoding="utf-8"))
    return sorted(recorded, key=lambda name: recorded[name]["mebibytes"])[-N_HEAVIEST:]


def run(*command: object, cwd: Path, may_fail: bool = False, **more) -> str:
    found = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, **more
    )
    if found.returncode and not may_fail:
        sys.exit(f"{' '.join(map(str, command))}\n{found.stdout[-4000:]}{found.stderr[-4000:]}")
    return found.stdout


def checkout(folder: Path) -> Path:
    """The files under version control, as they are now, and nothing else."""
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    return folder


def wanted_python(folder: Path) -> str:
    return re.fullmatch(r"python-(\d\.\d+)\s*", (folder / "binder/runtime.txt").read_text())[1]


def without_an_index_that_is_silent(folder: Path) -> bool:
    """Take out the index of CPU builds where it cannot be reached; whether it could be.

    pip would ask it again and again for every package: a quarter of an hour for nothing.
    """
    file = folder / "binder" / "requirements.txt"
    text = file.read_text(encoding="utf-8")
    index = re.search(r"^--extra-index-url (\S+)\n", text, re.MULTILINE)
    answers = run(sys.executable, folder / "tools" / "cpu_wheels.py", index[1], cwd=folder)
    if not answers.strip():
        file.write_text(text.replace(index[0], ""), encoding="utf-8")
    return bool(answers.strip())


def size(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def install(folder: Path, home: Path) -> Path:
    """The environment that repo2docker makes; its Python."""
    run(sys.executable, "-m", "venv", home, cwd=folder)
    python = home / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--no-cache-dir", *BASE, cwd=folder)
    run(*pip, *STEP, cwd=folder)
    run(*pip, "check", cwd=folder)
    return python


def run_chapter(python: Path, folder: Path, notebook: str) -> dict[str, float]:
    """Seconds and peak of a chapter as nbval runs it, each process within Binder's memory.

    Seconds are only told, since this machine is not Binder's; an output that differs is a failure.
    """
    sanitize = folder / "tests" / "nbval_sanitize.cfg"
    options = ["--nbval", "--nbval-current-env", f"--nbval-sanitize-with={sanitize}"]
    options += ["--nbval-cell-timeout=300", "-o", "addopts=", "-p", "chapters", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "tools"), "OMP_NUM_THREADS": "1"}
    text = run(
        python,
        *["-m", "pytest", *options, notebook],
        cwd=folder,
        may_fail=True,
        env=environment,
        preexec_fn=functools.partial(chapters.limit_memory, chapters.BINDER_BYTES),
    )
    measured = re.search(rf"([\d.]+) s +(\d+) MiB +{notebook}", text)
    if not measured or re.search(r"\d+ (failed|error)", text):
        sys.exit(text[-4000:])
    return {"seconds": float(measured[1]), "peak_mib": int(measured[2])}


def main(notebooks: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = checkout(Path(temporary, "repository"))
        if wanted_python(folder) != ".".join(map(str, sys.version_info[:2])):
            sys.exit(f"Binder's Python is {wanted_python(folder)}: start this with it")
        index = without_an_index_that_is_silent(folder)
        print(f"the index of CPU builds {'answers' if index else 'cannot be reached'}", flush=True)
        start = time.monotonic()
        home = Path(temporary, "environment")
        python = install(folder, home)
        seconds = round(time.monotonic() - start)
        held = size(home)
        print(f"installed in {seconds} s: {held / 2**20:,.0f} MiB on disk", flush=True)
        if held > MAX_DISK:
            sys.exit(f"more than the {MAX_DISK / 2**20:,.0f} MiB of the budget")
        listed = json.loads(run(python, "-m", "pip", "list", "--format=json", cwd=folder))
        ran = {}
        for notebook in notebooks or heaviest():
            ran[notebook] = run_chapter(python, folder, notebook)
            print(f"{notebook}: {ran[notebook]}", flush=True)
    record = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": next(one["version"] for one in listed if one["name"] == "torch"),
        "cpu_index_reached": index,
        "packages": len(listed),
        "disk_mib": round(held / 2**20),
        "install_seconds": seconds,
        "memory_limit_mib": chapters.BINDER_BYTES // 2**20,
        "chapters": ran,
        "stamp": stamps.stamp([*stamps.sources(), *(ROOT / name for name in [*INSTALLED, *ran])]),
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
