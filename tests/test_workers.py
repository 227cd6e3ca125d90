"""The pool of processes: results, errors, and processes that are killed."""

import os
import signal
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import psutil
import pytest

from autograder.journal import Journal, Record
from autograder.scoring import ExerciseResult, Failure
from autograder.submission import UngradableError
from autograder.workers import WorkerLostError, Workers

# Called in other processes, which import this module.


def dies_the_first_time(path):
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def refuses():
    raise UngradableError("one line")


def sleeps(path):
    path.write_text(str(os.getpid()))
    time.sleep(600)


@pytest.fixture(scope="module")
def pool():
    with Workers(2) as pool:
        yield pool


def test_results_and_errors_come_back(pool):
    assert pool.call(pow, 2, 5) == 32
    with pytest.raises(UngradableError, match="one line"):
        pool.call(refuses)


def test_work_of_a_killed_process_is_done_by_another(pool, tmp_path):
    assert pool.call(dies_the_first_time, tmp_path / "tried") == "done"


def test_work_that_kills_every_process_is_given_up(pool):
    with pytest.raises(WorkerLostError, match="lost 3 times"):
        pool.call(dies)
    assert pool.call(pow, 2, 5) == 32


def test_stop_ends_the_processes_at_once(tmp_path):
    with ThreadPoolExecutor() as threads, Workers(1) as pool:
        job = threads.submit(pool.call, sleeps, tmp_path / "pid")
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        pool.stop()
        with pytest.raises(CancelledError):
            job.result(timeout=60)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


RECORD = Record(
    {"f": ExerciseResult("f", 1.5, 2.0, ("a",), (Failure("b", "off by π"),), "named", "1 of 2")},
    [[], [{"output_type": "stream", "name": "stdout", "text": "5"}]],
)


def test_a_record_comes_back_as_it_was(tmp_path):
    journal = Journal(tmp_path / "journal")
    assert journal.get("k") is None
    journal.put("k", RECORD)
    assert journal.get("k") == RECORD
    assert [path.name for path in journal.folder.iterdir()] == ["k.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"results": {"f": {}}}', '{"results": {}, "outputs"'])
def test_a_broken_record_counts_as_none(tmp_path, text):
    journal = Journal(tmp_path)
    (tmp_path / "k.json").write_text(text)
    assert journal.get("k") is None
    journal.put("k", RECORD)
    assert journal.get("k") == RECORD


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        Journal(tmp_path).put("k", RECORD)
    assert list(tmp_path.iterdir()) == []
