"""The local page ended in every way: no process of it stays, and the next start removes what it left in files."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE
from unittest.mock import Mock

import pytest

from softcut.serve.jobs import Jobs

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx")
pytest.importorskip("python_multipart")
if not Path("/proc/self/stat").is_file():
    pytest.skip("there is no list of processes", allow_module_level=True)

# Its clusters take a minute, in which the job tells nothing.
EDGES = "\n".join(f"{a},{a * b % 79_999}" for a in range(79_999) for b in (3, 5, 7, 11, 13)).encode()


@pytest.fixture
def begin(tmp_path):
    """Start a server in a session of its own, whose files are in the folder of the test; the process, the address."""
    started = []

    def start(ready: bool = True) -> tuple[subprocess.Popen, str]:
        command = [sys.executable, "-m", "softcut", "serve", "--port", "0"]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            command, env=env, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True
        )
        started.append(process)
        said = process.stdout.readline() if ready else ""
        return process, said and re.search(r"http://\S+", said)[0]

    yield start
    for process in started:  # where a test failed
        for member in session(process.pid):
            os.kill(member, signal.SIGKILL)


def session(leader: int) -> list[int]:
    """The processes of a session that are not dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def ended(process: subprocess.Popen, seconds: float = 60) -> bool:
    """Whether nothing of a server runs any more, soon."""
    process.communicate(timeout=seconds)
    end = time.monotonic() + seconds
    while session(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not session(process.pid)


def uploads(temporary: Path) -> list[Path]:
    return [path for path in temporary.glob("softcut-serve-*/*") if path.is_dir()]


def send(address: str) -> str:
    return httpx.post(f"{address}/jobs", files={"file": ("g.csv", EDGES)}, data={"k": "100"}).json()["id"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGKILL", "SIGHUP", "SIGTERM", "SIGINT"])
def test_a_server_that_is_ended_takes_its_jobs_with_it(begin, tmp_path, how):
    process, address = begin()
    job = send(address)
    end = time.monotonic() + 60
    while not httpx.get(f"{address}/jobs/{job}").json()["events"] and time.monotonic() < end:
        time.sleep(0.05)
    assert len(session(process.pid)) >= 3 and uploads(tmp_path)
    process.send_signal(getattr(signal, how))
    assert ended(process, 20)
    if how != "SIGKILL":
        assert not list(tmp_path.glob("softcut-serve-*"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_20_kills_leave_no_process_and_the_next_start_no_upload(begin, tmp_path):
    moments = random.Random(0)
    for kill in range(20):
        process, address = begin(ready=kill % 5 != 4)
        if address:
            assert not uploads(tmp_path)
            for _ in range(moments.randint(1, 3)):
                send(address)
        time.sleep(moments.uniform(0, 5))
        process.send_signal(signal.SIGKILL if kill % 2 else signal.SIGHUP)
        assert ended(process)
    process, _ = begin()
    assert not uploads(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert ended(process)
    assert not list(tmp_path.glob("softcut-serve-*"))


def test_folders_of_dead_servers_are_swept_and_those_of_living_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", Mock())
    dead, other, kept = tmp_path / "softcut-serve-dead", tmp_path / "other", tmp_path / "kept"
    for folder in (dead, other, kept):
        (folder / "job").mkdir(parents=True)
    link = tmp_path / "softcut-serve-link"
    link.symlink_to(kept)
    with Jobs() as living:
        upload = living.new_folder()
        with Jobs():
            assert not dead.exists() and other.exists() and upload.exists()
            assert link.is_symlink() and (kept / "job").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "other", "softcut-serve-link"]


def test_a_file_system_without_locks_is_never_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", Mock())
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError("no locks available")))
    with Jobs() as one:
        upload = one.new_folder()
        with Jobs() as other:
            assert other.new_folder().exists() and upload.exists()
    assert not list(tmp_path.iterdir())
