"""Kernels forked from a warm template: each is fresh, sealed, gone before the next. Without it, the same scores."""

import os
from pathlib import Path

import psutil
import pytest
import toy

from autograder import groups, warm
from autograder.calls import Call
from autograder.exercise import Chapter
from autograder.sandbox import family
from autograder.sealed import Limits, grade_notebook, sealed_session
from autograder.warm import warm_kernels

FAST = Limits(cell=4, call=1.5, notebook=120)
FULL = {"double": 4, "quadruple": 2, "root": 2}


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "toolbox.py"
    path.write_text("FACTOR = 2")
    return path


@pytest.fixture(scope="module")
def kernels(toolbox):
    with warm_kernels((toolbox,)) as source:
        grade(source)
        yield source


def grade(kernels, *before, **answers):
    notebook = toy.notebook(before, **answers)
    results = grade_notebook(notebook, toy.CHAPTER, kernels.files, limits=FAST, kernels=kernels)
    return {name: result.points for name, result in results.items()}, notebook


def seen(kernels, *probes):
    """What probes find out, one after the other, inside one fork."""
    notebook = toy.notebook(["def look(): pass"], Chapter("00_empty", ()))
    with sealed_session(notebook, kernels.files, True, Limits(), kernels) as session:
        for index in range(len(notebook.cells)):
            session.run(index)
        outcomes = [session.call("look", Call(probe=probe)) for probe in probes]
    assert all(outcome.status == "returned" for outcome in outcomes), outcomes
    return [outcome.value for outcome in outcomes]


def template(kernels):
    """The template as a process of this machine."""
    return next(p for p in family(os.getpid()) if "autograder.template" in p.cmdline() and p.name() != "bwrap")


def test_notebooks_are_graded_by_forks(kernels):
    _, notebook = grade(kernels, "import torch\nprint(torch.ones(2).sum())", "1 / 0")
    points, _ = grade(kernels, double="import toolbox\ndef double(x):\n    return toolbox.FACTOR * x")
    assert points == FULL
    assert notebook.cells[1].outputs[0].text == "tensor(2.)\n"
    assert notebook.cells[2].outputs[0].ename == "ZeroDivisionError"
    assert template(kernels).num_threads() == 1


def leave_traces(answer):
    import builtins
    import ctypes
    import os
    import sys

    import numpy as np

    for folder in ("/home/student", "/tmp", "/dev/shm"):
        with open(f"{folder}/trace", "w") as file:
            file.write("trace")
    builtins.trace = 1
    sys.modules["trace"] = os
    np.allclose = None
    os.environ["TRACE"] = "1"
    memory = ctypes.CDLL(None, use_errno=True)
    return memory.shmget(4711, 4096, 0o1666) >= 0


def look_for_traces(answer):
    import builtins
    import ctypes
    import os
    import sys

    import numpy as np

    files = [f"{folder}/{n}" for folder in ("/home/student", "/tmp", "/dev/shm") for n in os.listdir(folder)]
    shared = ctypes.CDLL(None, use_errno=True).shmget(4711, 4096, 0o666) >= 0
    state = [hasattr(builtins, "trace"), "trace" in sys.modules, np.allclose is None, "TRACE" in os.environ, shared]
    return [files, state, float(np.random.rand())]


def test_every_fork_is_fresh(kernels):
    left, (files, state, drawn) = seen(kernels, leave_traces, look_for_traces)
    assert left
    assert all(state)
    assert {"/home/student/trace", "/tmp/trace", "/dev/shm/trace"} <= set(files)
    (later_files, later_state, later_drawn) = seen(kernels, look_for_traces)[0]
    assert not any(later_state)
    assert not [name for name in later_files if "trace" in name]
    assert drawn != later_drawn


def sleepers():
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "98765"]]


def test_its_processes_are_gone_before_the_next(kernels):
    cell = "import subprocess\nsubprocess.run(['setsid', '-f', 'sleep', '98765'])\nimport time; time.sleep(0.5)"
    with sealed_session(toy.notebook([cell]), kernels.files, True, FAST, kernels) as session:
        before = len(family(template(kernels).pid))
        session.run(1)
        assert len(sleepers()) == 1
        assert len(family(template(kernels).pid)) == before + 1
    assert sleepers() == []
    assert len(family(template(kernels).pid)) == 1


def look_around(answer):
    import os
    import pathlib
    import socket

    def refused(action, *arguments):
        try:
            action(*arguments)
        except OSError as error:
            return type(error).__name__
        return "done"

    threads = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/status")]
    rights = {line for text in threads for line in text.splitlines() if line.startswith(("Cap", "NoNewPrivs"))}
    kinds = []
    for name in os.listdir("/proc/self/fd"):
        try:
            kinds.append(socket.socket(fileno=os.dup(int(name))).type)
        except OSError:
            continue
    return {
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "rights": sorted(rights),
        "user": os.getuid(),
        "network": refused(socket.create_connection, ("127.0.0.1", 22), 1),
        "a setting": refused(os.open, "/proc/sys/kernel/core_pattern", os.O_WRONLY),
        "its files": refused(os.open, "toolbox.py", os.O_WRONLY),
        "requests": [int(kind) for kind in kinds if kind == socket.SOCK_SEQPACKET],
        "folders": sorted(map(str, pathlib.Path("/tmp").iterdir())),
    }


def test_a_fork_sees_nothing_but_itself_and_has_no_rights(kernels):
    found = seen(kernels, look_around)[0]
    assert found["processes"] == [1, 2]
    assert {line.split()[1].strip("0") for line in found["rights"] if line.startswith("Cap")} == {""}
    assert [line.split()[1] for line in found["rights"] if line.startswith("NoNewPrivs")] == ["1"]
    assert found["user"] == 65534
    assert "Error" in found["network"]
    assert "Error" in found["a setting"]
    assert "Error" in found["its files"]
    assert found["requests"] == []
    assert not [folder for folder in found["folders"] if folder.startswith(str(kernels.folder))]


def test_the_sockets_are_out_of_sight_wherever_they_lie(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/var/tmp")
    with warm_kernels() as source:
        assert str(source.folder).startswith("/var/tmp")
        folder = str(source.folder)
        cell = f"import os\nprint(os.listdir({folder!r}))\nopen({folder!r} + '/x', 'w')"
        _, notebook = grade(source, cell)
        assert source.fork is not None
    assert notebook.cells[1].outputs[0].text == "[]\n"
    assert notebook.cells[1].outputs[1].ename in {"OSError", "PermissionError"}


@pytest.mark.parametrize(
    "cell",
    [
        "import os; os._exit(1)",
        "import os, signal; os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGINT); os.kill(-1, signal.SIGTERM)",
        "while True: pass",
        "while True: print('x' * 1000)",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "held = bytearray(8 * 2**30)",
        "open('/tmp/big', 'wb').write(bytes(10**9))",
        "[open(f'/tmp/{i}', 'wb').write(bytes(5 * 10**7)) for i in range(100)]",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_a_bad_cell_costs_nothing_but_itself(kernels, cell):
    first = template(kernels)
    points, notebook = grade(kernels, "seen = 1", cell, double="def double(x):\n    return seen * 2 * x")
    assert points == FULL
    assert len(str(notebook.cells[2].outputs)) < 3_000_000
    assert grade(kernels)[0] == FULL
    assert template(kernels) == first


def test_an_interrupt_stops_the_function_and_not_the_fork(kernels):
    looped = "calls = []\ndef double(x):\n    calls.append(x)\n    while len(calls) < 2: pass\n    return 2 * x"
    points, _ = grade(kernels, double=looped)
    assert points == FULL | {"double": 3}  # the call after the one that was stopped finds what that one has left


def test_a_dead_template_is_replaced(toolbox):
    with warm_kernels((toolbox,)) as source:
        assert grade(source)[0] == FULL
        first = template(source)
        first.kill()
        assert grade(source)[0] == FULL
        assert template(source) != first
        notebook = toy.notebook(["x = 1"])
        with sealed_session(notebook, source.files, True, FAST, source) as session:
            session.run(0)
            second = template(source)
            second.kill()
            psutil.wait_procs([second, *second.children(recursive=True)])
            session.run(1)
            assert notebook.cells[1].outputs[0].ename == "KernelDied"
            session.run(2)
            assert notebook.cells[2].outputs == []


def test_without_nested_namespaces_kernels_are_started_one_by_one(monkeypatch):
    monkeypatch.setattr(warm, "AS_ROOT", ())
    with warm_kernels() as source:
        assert source.fork(str(source.folder / "kernel.json")) is None
        assert grade(source)[0] == FULL


def test_many_kernels_leave_nothing_behind(toolbox):
    def held():
        return len(os.listdir("/proc/self/fd")), len(family(os.getpid())), sorted(os.listdir(source.folder))

    def control_groups():
        return {path for controller in groups.BOUNDS for path in (groups.ROOT / controller).rglob(f"course-{pid}")}

    with warm_kernels((toolbox,)) as source:
        notebook = toy.notebook([], Chapter("00_empty", ()))
        grade_notebook(notebook, Chapter("00_empty", ()), source.files, kernels=source)
        pid = template(source).parents()[1].pid  # bubblewrap's own
        after_one = held()
        for _ in range(20):
            grade_notebook(notebook, Chapter("00_empty", ()), source.files, kernels=source)
        assert held() == after_one
        folder = Path(source.folder)
    assert not folder.exists()
    assert not psutil.pid_exists(pid)
    assert control_groups() == set()
