"""What a submission does to its kernel costs it that exercise alone, and reaches nothing outside."""

import os
import shutil
import textwrap
from pathlib import Path

import psutil
import pytest
import toy

from autograder import sandbox
from autograder.calls import Call
from autograder.exercise import Chapter
from autograder.sealed import IDLE, Limits, Stopwatch, grade_notebook, sealed_session

FAST = Limits(cell=4, call=1.5, notebook=120)


def grade(*before, **answers):
    notebook = toy.notebook(before, **answers)
    results = grade_notebook(notebook, toy.CHAPTER, limits=FAST)
    return {name: result.points for name, result in results.items()}, results, notebook


FULL = {"double": 4, "quadruple": 2, "root": 2}


def test_full_marks_whatever_is_printed_or_warned():
    noisy = "def double(x):\n    import sys\n    print('hm', file=sys.stderr)\n    np.log(0.0)\n    return 2 * x"
    points, _, notebook = grade("print('hello')", "1 / 0", double=noisy)
    assert points == FULL
    assert notebook.cells[1].outputs[0].text == "hello\n"
    assert notebook.cells[2].outputs[0].ename == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise TypeError('two')", "raised TypeError: two"),
        ("return None", "returned None"),
        ("return x.shape", "raised AttributeError"),
        ("return float('nan')", "NaN"),
        ("return (i for i in [x])", "returned a generator"),
        ("return object()", "returned an object"),
        ("a = []\n    for _ in range(99): a = [a]\n    return a", "cannot be sent"),
        ("while True: print('x' * 100)", "printed more than 1,000,000 characters"),
        ("while True: pass", "did not finish within 2 seconds"),
        (
            "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
            "did not finish",
        ),
        ("import os; os._exit(0)", "ended the Python process"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended the Python process"),
        ("import ctypes; ctypes.string_at(0)", "ended the Python process"),
        ("raise SystemExit", "raised SystemExit"),
        ("bytearray(8 * 2**30)", "raised MemoryError"),
        ("input()", "raised EOFError"),
        ("raise NotImplementedError()", "not written"),
    ],
)
def test_a_bad_function_loses_its_own_points_only(body, says):
    points, results, _ = grade(double=f"def double(x):\n    {body}", quadruple="def quadruple(x):\n    return 4 * x")
    assert points == FULL | {"double": 0}
    told = f"{results['double'].message} {results['double'].failed[0].message}".lower()
    assert says.lower() in told


@pytest.mark.parametrize(
    "cell",
    [
        "import os; os._exit(1)",
        "while True: pass",
        "while True: print('x' * 1000)",
        "import threading\n[threading.Thread(target=lambda: print('y')).start() for _ in range(50)]",
        "input('name?')",
        "def broken(:",
        "get_ipython().kernel.do_shutdown(False)",
        "exit()",
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "open('/tmp/big', 'wb').write(bytes(10**9))",
        "[open(f'/tmp/{i}', 'wb').write(bytes(5 * 10**7)) for i in range(100)]",
    ],
)
def test_a_bad_cell_costs_nothing_but_itself(cell):
    points, _, notebook = grade("seen = 1", cell, double="def double(x):\n    return seen * 2 * x")
    assert points == FULL
    assert len(str(notebook.cells[2].outputs)) < 3_000_000


HOSTILE = {
    "rebinds numpy": "np.allclose = np.array_equal = np.asarray = np.frombuffer = lambda *a, **k: True",
    "rebinds builtins": """
        import builtins
        builtins.isinstance = lambda *a: True
        builtins.float = int
        builtins.len = lambda x: 1
    """,
    "rebinds the checker": """
        import autograder.calls, autograder.wire
        autograder.wire.encode = autograder.calls.perform = lambda *a: [b'']
    """,
    "rebinds the shell": """
        shell = get_ipython()
        shell.run_cell = shell.run_cell_async = lambda *a, **k: None
    """,
    "transforms cells": "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass'])",
    "hooks into cells": """
        def stop(info):
            raise KeyboardInterrupt
        get_ipython().events.register('pre_run_cell', stop)
    """,
    "displays a score": "from IPython.display import display; display(4.0); 4.0",
    "answers for the kernel": """
        kernel = get_ipython().kernel
        kernel.shell_handlers['call_request'] = lambda stream, ident, parent: kernel.session.send(
            stream, 'call_reply', {}, parent, ident=ident, buffers=[b'{"status": "full marks"}'])
    """,
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_wrong_functions_gain_nothing(trick):
    before = textwrap.dedent(HOSTILE[trick])
    lies = "class Equal(float):\n    def __eq__(self, other): return True\n    __hash__ = float.__hash__\n"
    points, _, _ = grade(
        before,
        double=lies + "def double(x):\n    return Equal(0.0)",
        quadruple="def quadruple(x):\n    return np.zeros_like(x)",
        root="def root(x):\n    return x",
    )
    assert points == {"double": 0, "quadruple": 0, "root": 0}


@pytest.mark.parametrize("trick", ["rebinds numpy", "displays a score"])
def test_right_functions_keep_their_points_beside_a_trick(trick):
    assert grade(HOSTILE[trick])[0] == FULL


def seen(probe):
    """What a probe finds out inside the sandbox."""
    notebook = toy.notebook(["def look(): pass"], Chapter("00_empty", ()))
    with sealed_session(notebook, (), True, Limits()) as session:
        for index in range(len(notebook.cells)):
            session.run(index)
        outcome = session.call("look", Call(probe=probe))
    assert outcome.status == "returned", outcome
    return outcome.value


def look_around(answer):
    import os
    import pathlib
    import socket

    def can_write(folder):
        try:
            pathlib.Path(folder, "x").write_text("x")
        except OSError:
            return False
        return True

    places = [path for pattern in ("*", "*/*", "*/*/*") for path in pathlib.Path("/").glob(pattern)]
    folders = [path for path in places if path.is_dir()]
    writable = [str(folder) for folder in folders if "/proc" not in str(folder) and can_write(folder)]
    try:
        socket.create_connection(("127.0.0.1", 22), 1)
        network = "connected"
    except OSError as error:
        network = type(error).__name__
    names = [pathlib.Path("/proc", pid, "cmdline").read_text() for pid in os.listdir("/proc") if pid.isdigit()]
    interfaces = [line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]]
    settings = [str(path) for path in pathlib.Path("/proc/sys").glob("*/*") if os.access(path, os.W_OK)]
    return [writable, network, names, sorted(os.environ), os.getuid(), interfaces, settings]


def test_a_submission_sees_and_writes_only_its_own():
    writable, network, commands, environment, user, interfaces, settings = seen(look_around)
    assert "/home/student" in writable
    assert [folder for folder in writable if not folder.startswith(("/home/student", "/tmp", "/dev/shm"))] == []
    assert "Error" in network
    assert interfaces == ["lo"]
    assert user == 65534
    assert settings == []
    assert all("bwrap" in command or "autograder.inside" in command for command in commands)
    assert set(environment) - set(sandbox.ENVIRONMENT) <= {
        "HOME", "PYTHONPATH", "PWD", "JPY_PARENT_PID", "MPLBACKEND", "PYDEVD_USE_FRAME_EVAL", "TERM", "CLICOLOR",
        "FORCE_COLOR", "CLICOLOR_FORCE", "PAGER", "GIT_PAGER", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}  # fmt: skip


def look_for_the_course(answer):
    import os

    found = []
    for folder, folders, files in os.walk("/"):
        folders[:] = [name for name in folders if name not in {"proc", "usr", "lib"}]
        found += [f"{folder}/{name}" for name in files if name.endswith((".md", ".db")) or "descent" in name]
    found = [path for path in found if "site-packages" not in path]
    return [found, sorted(os.listdir("/opt/sealed/autograder"))]


def test_no_answer_and_no_hidden_case_is_inside():
    found, visible = seen(look_for_the_course)
    assert [path for path in found if "descent" in path or path.endswith(".db")] == []
    assert visible == sorted(sandbox.VISIBLE)
    with pytest.raises(AssertionError, match="raised"):
        seen(import_the_answers)


def import_the_answers(answer):
    import solutions.descent

    return solutions.descent.__file__


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    grade("import subprocess\nsubprocess.Popen(['sleep', '1000'])", "import os; os._exit(0)")
    assert os.listdir(tmp_path) == []
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "1000"]]


def test_without_bubblewrap_it_refuses(monkeypatch):
    sandbox.require_sandbox.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(sandbox.SandboxError, match="apt install bubblewrap"):
        grade()
    monkeypatch.undo()
    sandbox.require_sandbox.cache_clear()


def test_unsandboxed_is_still_sealed():
    notebook = toy.notebook([HOSTILE["rebinds numpy"]], double="def double(x):\n    return x")
    results = grade_notebook(notebook, toy.CHAPTER, sandboxed=False, limits=FAST)
    assert {name: result.points for name, result in results.items()} == FULL | {"double": 0}


def test_files_are_laid_beside_the_work(tmp_path: Path):
    toolbox = tmp_path / "toolbox.py"
    toolbox.write_text("FACTOR = 2")
    notebook = toy.notebook(double="import toolbox\ndef double(x):\n    return toolbox.FACTOR * x")
    results = grade_notebook(notebook, toy.CHAPTER, (toolbox,), limits=FAST)
    assert results["double"].points == 4


def test_errors_are_carried_forward_into_the_sandbox():
    points, results, _ = grade(
        double="def double(x):\n    return 3 * x", quadruple="def quadruple(x):\n    return double(double(x))"
    )
    assert points == FULL | {"double": 0}
    assert "your own double" in results["quadruple"].message


def test_a_cell_that_fails_is_told():
    notebook = toy.notebook(double="import no_such_module\ndef double(x):\n    return 2 * x")
    notebook.cells[1].metadata["nbgrader"] = {"grade_id": "double"}
    result = grade_notebook(notebook, toy.CHAPTER, limits=FAST)["double"]
    assert result.message == (
        "Not defined, since its cell failed: ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_a_function_defined_below_its_test_counts():
    notebook = toy.notebook()
    notebook.cells[1], notebook.cells[2] = notebook.cells[2], notebook.cells[1]
    assert grade_notebook(notebook, toy.CHAPTER, limits=FAST)["double"].points == 4


def test_time_in_which_others_compute_does_not_count(monkeypatch):
    now, read = 0.0, (0.0, 0.0)
    monkeypatch.setattr("autograder.sealed.time.monotonic", lambda: now)
    monkeypatch.setattr(Stopwatch, "_read", lambda self: read)
    watch = Stopwatch(list)
    now, read = 1000.0, (9.0, 980.0)  # a loaded machine: a call that computes for 9 seconds takes long
    assert not watch.over(10)
    read = (11.0, 980.0)
    assert watch.over(10)
    now, read = IDLE * 10 + 1.0, (0.0, 0.0)  # asleep
    assert watch.over(10)
    assert not Stopwatch(lambda: [psutil.Process()]).over(10)
