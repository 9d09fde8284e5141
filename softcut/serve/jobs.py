"""Jobs of the local page: one process each, a limit on their number, files that are removed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from softcut.errors import ParameterError

try:
    import fcntl
except ImportError:  # Windows, where nothing is swept
    fcntl = None  # type: ignore[assignment]

_PREFIX = "softcut-serve-"


@dataclass
class Job:
    """One upload and what became of it: `state` is "running", "done", "failed" or "cancelled".

    `about` is what a list of jobs says about it. `events` is what its process told, in order, `error` a sentence where
    it failed, `argument` the field of the form that the sentence is about, `result` what was found.
    """

    id: str
    folder: Path
    about: dict[str, str] = field(default_factory=dict)
    process: Any = None
    state: str = "running"
    events: list[tuple[Any, ...]] = field(default_factory=list)
    error: str = ""
    argument: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    seen: float = field(default_factory=time.monotonic)


class Jobs:
    """All jobs of a server, of which `most_running` may run at once; their files are gone after :meth:`close`.

    A server that is killed cannot remove its files: the next one does.
    """

    most_kept = 20  # finished jobs whose results are kept; the oldest go first
    # Jobs that nobody has asked about for so long are ended and removed: a closed page may be opened again.
    idle_seconds = 1800.0

    def __init__(self, most_running: int = 4) -> None:
        self.most_running = most_running
        _sweep()
        self._root, self._held = _own_folder()
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        # A process that has loaded everything is copied for each job, where the system can do that.
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            from multiprocessing import forkserver

            self._context.set_forkserver_preload(["softcut.serve.worker"])
            forkserver.ensure_running()

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def new_folder(self) -> Path:
        """A folder for an upload; its name is the job's and cannot be guessed."""
        folder = self._root / secrets.token_urlsafe(16)
        folder.mkdir()
        return folder

    def check_free(self) -> None:
        """A ParameterError where as many jobs run as may."""
        self.tidy()
        running = [job.state for job in list(self._jobs.values())].count("running")
        if running >= self.most_running:
            raise ParameterError(
                f"{running} jobs are running, as many as may; try again when one of them is done."
            )

    def start(self, folder: Path, about: dict[str, str] | None = None, **order: Any) -> Job:
        """Start a job on the files of a folder of :meth:`new_folder`; `order` is what `softcut.serve.worker` takes."""
        # All jobs that may run at once share the processors.
        order["threads"] = max(1, (os.cpu_count() or 1) // self.most_running)
        job = Job(folder.name, folder, about or {})
        with self._lock:
            self.check_free()
            self._jobs[job.id] = job
        threading.Thread(target=self._run, args=(job, order), daemon=True).start()
        return job

    def _run(self, job: Job, order: dict[str, Any]) -> None:
        """In a thread of its own: start the process (the first one waits until all is loaded) and listen to it."""
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(job.folder, order, sender), daemon=True)
        process.start()
        sender.close()
        job.process = process
        if job.state != "running":  # removed meanwhile
            _end(process)
        _listen(job, receiver)

    def get(self, name: str) -> Job | None:
        """A job by its name; asking keeps it."""
        job = self._jobs.get(name)
        if job is not None:
            job.seen = time.monotonic()
        return job

    def remove(self, name: str) -> bool:
        """End a job, remove its files; False where there is none of this name."""
        job = self._jobs.pop(name, None)
        if job is None:
            return False
        if job.state == "running":
            job.state = "cancelled"
        _end(job.process)
        shutil.rmtree(job.folder, ignore_errors=True)
        return True

    def tidy(self) -> None:
        """Remove jobs that nobody asks about any more, and the oldest results beyond those that are kept."""
        now = time.monotonic()
        jobs = sorted(self._jobs.values(), key=lambda job: job.seen)
        finished = [job for job in jobs if job.state != "running"]
        old = [job for job in jobs if now - job.seen > self.idle_seconds]
        for job in [*old, *finished[: max(0, len(finished) - self.most_kept)]]:
            self.remove(job.id)

    def close(self) -> None:
        """End all jobs and remove all files."""
        for job in list(self._jobs.values()):
            self.remove(job.id)
        shutil.rmtree(self._root, ignore_errors=True)
        self._held.close()


def _own_folder() -> tuple[Path, contextlib.ExitStack]:
    """A new folder, and what holds it: its lock says that a server lives, and ends with the process in any case."""
    while True:
        folder, held = Path(tempfile.mkdtemp(prefix=_PREFIX)), contextlib.ExitStack()
        _locked(
            folder, held, wait=True
        )  # without locks, as on some file systems, no other server sweeps either
        if folder.exists():  # another server may have swept it before it was locked
            return folder, held
        held.close()


def _locked(folder: Path, held: contextlib.ExitStack, wait: bool = False) -> bool:
    """Lock a folder of this user until `held` is closed; False where it cannot be, or another process holds it."""
    if fcntl is None:
        return False
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        held.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return os.fstat(handle).st_uid == os.geteuid()


def _sweep() -> None:
    """Remove the folders of servers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.ExitStack() as held:
            if _locked(folder, held):
                shutil.rmtree(folder, ignore_errors=True)


def _work(folder: Path, order: dict[str, Any], sender: Connection) -> None:
    """In the process of a job: the server itself never loads what computes."""
    threading.Thread(target=_end_with_server, daemon=True).start()
    from softcut.serve import worker

    worker.run_process(folder, order, sender)


def _end_with_server() -> None:
    """End this process when the server ends, however it does."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def _listen(job: Job, receiver: Connection) -> None:
    """Take what a job tells until it is over."""
    with contextlib.suppress(EOFError, OSError), receiver:
        while True:
            kind, *values = receiver.recv()
            if kind == "done":
                job.result = values[0]
            elif kind == "failed":
                job.error, job.argument = values
            else:
                job.events.append((kind, *values))
    if job.state != "running":
        return
    if not job.result and not job.error:
        job.error = "the job ended without a result; perhaps the memory was full: a smaller file needs less."
    job.state = "failed" if job.error else "done"


def _end(process: Any) -> None:
    if process is None or not process.is_alive():
        return
    process.terminate()
    process.join(2)
    if process.is_alive():
        process.kill()
        process.join(2)
