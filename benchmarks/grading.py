"""How fast is a class graded? `course grade` against stock `nbgrader autograde`, on the same submissions, in one run.

    python benchmarks/grading.py [--submissions 48] [--blocks 3] [--workers 2]

The submissions are made from the chapter's registered answers and mistakes. They are graded in blocks, each block by
stock nbgrader first and by the course's grader next, both from cold. Stock nbgrader runs every cell and the same hidden
checks, in the student's own kernel, and writes no feedback. The course's grader runs the cells that are needed, in the
sandbox, and writes feedback, grades and report. Scores are compared: stock nbgrader takes all points of an exercise
whose code warns. Table and figure go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from copy import deepcopy
from pathlib import Path

import nbformat
import psutil
from nbgrader.api import Gradebook

from autograder.assignments import TOOLBOX, source_notebook
from autograder.exercise import Chapter
from autograder.exercises import chapters
from autograder.sample import source_as, submission

RESULTS = Path(__file__).parent / "results"
NAME = "02_adaptive"
BIN = Path(sys.executable).parent
STOCK = "c = get_config()\nc.CourseDirectory.root = {root!r}\nc.Execute.timeout = 300\n"


def honest(full: nbformat.NotebookNode, chapter: Chapter, number: int) -> nbformat.NotebookNode:
    """The full answer with one registered mistake, another one for each number; every fourth has none."""
    notebook = deepcopy(full)
    exercise = chapter.exercises[number % len(chapter.exercises)]
    mistake = exercise.misconceptions[number % len(exercise.misconceptions)]
    for cell in notebook.cells:
        if number % 4 and cell.metadata.get("nbgrader", {}).get("grade_id") == exercise.name:
            cell.source = source_as(mistake.function, exercise.name)
    notebook.cells.append(nbformat.v4.new_code_cell(f"# submission {number}", id="number"))
    return notebook


def hand_in(root: Path, chapter: Chapter, numbers: range) -> None:
    """Lay submissions into a class directory."""
    full = submission(chapter, "full-answer")
    for number in numbers:
        path = root / "submitted" / f"s{number:03d}" / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(honest(full, chapter, number), path)
        (path.parent / TOOLBOX.name).write_bytes(TOOLBOX.read_bytes())


def stock(root: Path) -> float:
    """Seconds that stock nbgrader takes for a class directory."""
    (root / "nbgrader_config.py").write_text(STOCK.format(root=str(root)))
    source = root / "source" / NAME
    source.mkdir(parents=True)
    nbformat.write(source_notebook(NAME), source / f"{NAME}.ipynb")
    (source / TOOLBOX.name).write_bytes(TOOLBOX.read_bytes())
    path = f"{BIN}:{os.environ['PATH']}"  # nbgrader calls `alembic` by name
    quiet = {"cwd": root, "check": True, "capture_output": True, "env": os.environ | {"PATH": path}}
    subprocess.run([BIN / "nbgrader", "generate_assignment", NAME, "--create"], **quiet)
    started = time.perf_counter()
    subprocess.run([BIN / "nbgrader", "autograde", NAME, "--create"], **quiet)
    return time.perf_counter() - started


def ours(root: Path, workers: int) -> tuple[float, float]:
    """Seconds that `course grade` takes for a class directory, and the most memory of all below it, in MB."""
    subprocess.run([BIN / "course", "release", NAME, "--classroom", root], check=True, capture_output=True)
    command = [BIN / "course", "grade", NAME, "--classroom", root, "--workers", str(workers)]
    started = time.perf_counter()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = [0.0]
    watch = threading.Thread(target=_watch, args=(run, peak))
    watch.start()
    status = run.wait()
    seconds = time.perf_counter() - started
    watch.join()
    assert status == 0
    return seconds, peak[0]


def _watch(run: subprocess.Popen, peak: list[float]) -> None:
    """Note the most memory that the processes have to themselves (shared pages by their share)."""
    while run.poll() is None:
        total = 0
        try:
            for process in psutil.Process(run.pid).children(recursive=True):
                total += process.memory_full_info().pss
        except psutil.Error:
            continue
        peak[0] = max(peak[0], total / 1e6)
        time.sleep(1)


def scores(root: Path) -> dict[str, float]:
    """Scores in a class's grade book."""
    with Gradebook(f"sqlite:///{root}/gradebook.db") as book:
        return {s["student"]: s["score"] for s in book.submission_dicts(NAME)}


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=48)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    chapter, each = chapters()[NAME], options.submissions // options.blocks
    blocks = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.blocks):
            numbers = range(number * each, (number + 1) * each)
            rooms = [Path(folder, f"{kind}{number}") for kind in ("stock", "ours")]
            for room in rooms:
                hand_in(room, chapter, numbers)
            slow = stock(rooms[0])
            fast, memory = ours(rooms[1], options.workers)
            theirs, own = map(scores, rooms)
            same = sum(theirs[student] == score for student, score in own.items())
            blocks.append({"stock": slow, "ours": fast, "ratio": slow / fast, "same": same, "memory_mb": memory})
            print(f"block {number + 1}: {blocks[-1]}", flush=True)
            assert len(own) == len(theirs) == each
    write(blocks, each, options.workers)


def write(blocks: list[dict[str, float]], each: int, workers: int) -> None:
    """Write the table, the raw numbers and the figure."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    RESULTS.mkdir(exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in ("nbgrader", "torch", "ipykernel")}
    machine = {
        "processors": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "python": platform.python_version(),
        **versions,
    }
    raw = {"submissions_a_block": each, "workers": workers, "machine": machine, "blocks": blocks}
    (RESULTS / "grading.json").write_text(json.dumps(raw, indent=1) + "\n")
    ratios = [block["ratio"] for block in blocks]
    lines = [
        "# Grading a class",
        "",
        f"`{NAME}`, {len(blocks)} blocks of {each} submissions, both graders from cold, one after the other. "
        f"The course's grader: {workers} workers, sandbox on.",
        "",
        "| block | stock `nbgrader autograde` (s) | `course grade` (s) | ratio | same score | workers, MB |",
        "|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {i} | {b['stock']:.1f} | {b['ours']:.1f} | {b['ratio']:.1f} | {b['same']} of {each} "
            f"| {b['memory_mb']:.0f} |"
            for i, b in enumerate(blocks, 1)
        ),
        "",
        f"Ratio: median {statistics.median(ratios):.1f}, from {min(ratios):.1f} to {max(ratios):.1f}.",
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
        "",
    ]
    (RESULTS / "grading.md").write_text("\n".join(lines))
    fig, ax = plt.subplots(figsize=(5.6, 2.6), layout="constrained")
    for place, kind in enumerate(("stock", "ours")):
        seconds = [block[kind] / each for block in blocks]
        ax.barh(place, statistics.median(seconds), color=("#7f7f7f", "#0072B2")[place], height=0.6)
        ax.plot(seconds, [place] * len(seconds), "k|", markersize=12)
    ax.set_yticks([0, 1], ["nbgrader\nautograde", "course\ngrade"])
    ax.set_xlabel("seconds a submission (bar: median of blocks; ticks: blocks)")
    fig.savefig(RESULTS / "grading.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
