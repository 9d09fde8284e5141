"""The local page: who may ask, what may be sent, and what becomes of jobs and their files."""

import asyncio
import json
import multiprocessing
import os
import sys
import threading
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import numpy as np
import pytest
from helpers.csv_files import write_csv
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("python_multipart")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP library
    from starlette.testclient import TestClient, WebSocketDenialResponse

from softcut.datasets import attributed_communities
from softcut.errors import ParameterError, SoftcutError
from softcut.metrics.summary import VERDICTS
from softcut.serve import jobs as serve_jobs
from softcut.serve import worker as serve_worker
from softcut.serve.app import _limited, create_app
from softcut.serve.jobs import Job, Jobs

EDGES = b"source,target\n" + b"".join(b"%d,%d\n" % (i, (i + 1) % 12) for i in range(12))
OWN = {"host": "127.0.0.1:8050"}
ENDED = [call.is_alive(), call.terminate(), call.join(2), call.is_alive()]


class ThreadProcess:
    """A process that is a thread of this one."""

    def __init__(self, target, args, daemon):
        folder, order, sender = args  # the server closes its own end
        assert daemon and not sender.readable
        args = (folder, order, Connection(os.dup(sender.fileno())))
        self.thread = threading.Thread(target=target, args=args, daemon=True)
        self.start, self.join, self.is_alive = self.thread.start, self.thread.join, lambda: False


@pytest.fixture
def held():
    """Set: jobs go on. Clear: they wait."""
    event = threading.Event()
    event.set()
    yield event
    event.set()


@pytest.fixture
def jobs(monkeypatch, held):
    def fake(folder, order, sender):
        with sender:
            sender.send(("read", order))
            if order["n_clusters"] == 7:
                held.wait(20)
            if not folder.exists():
                return
            (folder / "labels.csv").write_text("node,cluster\n")
            (folder / "report.html").write_text("<p>")
            sender.send(("progress", 0, 25, 200, -0.5, 0.25))
            sender.send(("done", {"kind": "graph", "files": ["labels.csv"]}))

    monkeypatch.setattr(serve_jobs, "_work", fake)
    forked = Mock()
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", forked)
    jobs = Jobs(most_running=2)
    forked.assert_called_once()  # so that jobs begin at once
    jobs._context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=ThreadProcess)
    yield jobs
    jobs.close()


@pytest.fixture
def client(jobs):
    with TestClient(create_app(jobs, ["127.0.0.1:8050"], 100_000), "http://127.0.0.1:8050") as client:
        yield client


def send(client, name="ring.csv", content=EDGES, k="2", **more):
    return client.post("/jobs", files={"file": (name, content)}, data={"k": k, **more})


def finished(client, name, state="done"):
    end = time.monotonic() + 20
    while (job := client.get(f"/jobs/{name}").json())["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.01)
    assert job["state"] == state
    return job


def test_a_job_from_upload_to_labels(client, jobs, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    same = {"seed": 7, "n_init": None, "max_bytes": 400_000, "threads": 4}
    for file, k, picture in (("Photo.PNG", "auto", True), ("ring.csv.gz", "100", False)):
        answer = send(client, file, k=k, seed="7")
        assert answer.status_code == 201
        name = answer.json()["id"]
        assert len(name) == 22  # 16 random bytes
        order = {"file": file, "picture": picture, "features": None, "n_clusters": "auto" if picture else 100}
        assert finished(client, name)["events"][0] == ["read", order | same]
    events = [["read", order | same], ["progress", 0, 25, 200, -0.5, 0.25]]
    for since, shown in (("1", 1), ("999999999", 2), ("1234567890", 0), ("x", 0), ("-1", 0)):
        assert client.get(f"/jobs/{name}?since={since}").json()["events"] == events[shown:]
    labels = client.get(f"/jobs/{name}/labels.csv")
    assert labels.text == "node,cluster\n"
    assert labels.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    report = client.get(f"/jobs/{name}/report.html").headers
    assert "sandbox" in report["content-security-policy"] and "content-disposition" not in report
    for other in ("ring.csv.gz", "labels.png"):  # not a result; not made
        assert client.get(f"/jobs/{name}/{other}").status_code == 404
    order = {"file": ("g.csv", EDGES), "features": ("x.csv", b"1")}
    answer = client.post("/jobs", files=order, data={"seed": 2**32 - 1, "a": 1, "b": 1, "c": 1})
    read = finished(client, answer.json()["id"])["events"][0][1]
    assert (read["features"], read["n_clusters"], read["seed"]) == ("x.csv", "auto", 2**32 - 1)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    read = finished(client, send(client).json()["id"])["events"][0][1]
    assert (read["seed"], read["threads"]) == (0, 1)
    for files, fields in ((3, 1), (1, 5)):
        parts = [("file", ("a.csv", EDGES))] * files
        answer = client.post("/jobs", files=parts, data={f"f{i}": "1" for i in range(fields)})
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        *({"host": host} for host in ("evil.example", "evil.example:8050", "127.0.0.1:9999")),
        *({"origin": page} for page in ("http://evil.example", "null", "https://127.0.0.1:8050")),
        *({"sec-fetch-site": site} for site in ("cross-site", "same-site")),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/jobs"), ("DELETE", "/jobs/x")])
def test_other_pages_are_refused(client, jobs, headers, method, path):
    files = {"file": ("a.csv", EDGES)} if path == "/jobs" else None
    answer = client.request(method, path, headers=headers, files=files)
    assert answer.status_code == 403
    assert answer.json()["error"].endswith(".")
    assert not list(jobs._root.iterdir())


def test_this_page_is_served_and_may_load_nothing_from_elsewhere(client):
    page = client.get("/", headers={"origin": "http://127.0.0.1:8050", "sec-fetch-site": "same-origin"})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "'unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "(at most 0 MB)" in page.text
    with pytest.raises(WebSocketDenialResponse) as denied, client.websocket_connect("/", headers=OWN):
        pass
    assert (denied.value.status_code, denied.value.json()) == (403, {"error": "only HTTP is spoken here."})
    for path in ("page.css", "views.js", "view_graph.js", "view_charts.js", "serve.js"):
        assert f"/static/{path}" in page.text
        assert client.get(f"/static/{path}").status_code == 200
    for path in ("page.html.j2", "../html_page.py", "..%2Fhtml_page.py"):
        assert client.get(f"/static/{path}").status_code == 404


@pytest.mark.parametrize(
    ("name", "k", "seed", "said"),
    [
        *((name, "2", "0", "must end in one of") for name in ("virus.exe", ".csv")),
        *(("a.csv", k, "0", "number of clusters") for k in ("many", "0", "101", "99999999999999999999")),
        *(("a.csv", "2", seed, "seed") for seed in ("-1", "4294967296", "42949672950", "x")),
    ],
)
def test_bad_orders_are_one_sentence_and_leave_no_files(client, jobs, name, k, seed, said):
    answer = send(client, name, k=k, seed=seed)
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    for nothing in ({}, {"file": "a.csv"}):
        assert "no file was sent" in client.post("/jobs", data={"k": "2", **nothing}).json()["error"]
    same = {"file": ("a.csv", EDGES), "features": ("a.csv", b"1")}
    assert "same file name" in client.post("/jobs", files=same).json()["error"]
    large = send(client, content=b"1 2\n" * 50_000)
    assert large.status_code == 413 and "larger than 0 MB" in large.json()["error"]
    assert not list(jobs._root.iterdir())


@pytest.mark.parametrize(
    "name", ["../../evil.csv", "..\\evil.csv", "/etc/evil.csv", "a;b\n$(x).csv", "l" * 90 + ".csv"]
)
def test_names_of_uploads_cannot_leave_their_folder(client, jobs, name):
    job = send(client, name).json()["id"]
    finished(client, job)
    (file,) = {p.name for p in (jobs._root / job).iterdir()} - {"labels.csv", "report.html"}
    assert file == ("evil.csv" if "evil" in name else "a_b_0A__x_.csv" if ";" in name else "l" * 76 + ".csv")


def test_two_users_do_not_wait_for_each_other_and_a_third_is_told_to(client, jobs, held):
    held.clear()
    slow = send(client, k="7").json()["id"]
    quick = send(client, k="2").json()["id"]
    finished(client, quick)
    assert client.get(f"/jobs/{slow}").json()["state"] == "running"
    (jobs._root / slow / "labels.csv").write_text("half")
    assert client.get(f"/jobs/{slow}/labels.csv").status_code == 404  # not before it is done
    assert send(client, k="7").status_code == 201
    refused = send(client, k="7")
    assert refused.status_code == 400
    assert "2 jobs are running" in refused.json()["error"]
    held.set()
    finished(client, slow)


def test_cancelled_jobs_and_their_files_are_gone(client, jobs, held):
    held.clear()
    name = send(client, k="7").json()["id"]
    assert (jobs._root / name).exists()
    assert client.delete(f"/jobs/{name}").json() == {"removed": True}
    assert not (jobs._root / name).exists()
    for ask, path in ((client.get, name), (client.delete, name), (client.get, f"{name}/labels.csv")):
        answer = ask(f"/jobs/{path}")
        assert answer.status_code == 404
        assert "does not exist" in answer.json()["error"]


def test_files_are_removed_at_the_end(jobs):
    with TestClient(create_app(jobs, ["a:1"]), "http://a:1") as client:
        job = finished(client, send(client, k="1").json()["id"])  # the fewest clusters
        assert job["events"][0][1]["max_bytes"] == 200_000_000
        assert "(at most 50 MB)" in client.get("/").text
        assert list(jobs._root.rglob("ring.csv"))
    assert not jobs._root.exists()


def test_an_upload_may_have_so_many_bytes_and_no_more():
    async def receive():
        return {"body": bytes(50)}

    limited = _limited(receive, 100)
    assert [len(asyncio.run(limited())["body"]) for _ in range(2)] == [50, 50]
    with pytest.raises(SoftcutError, match="larger than 0 MB"):
        asyncio.run(_limited(receive, 49)())


def test_old_results_are_removed(jobs, monkeypatch):
    def add(count, state, age):
        for name in (f"{state} {age} {i}" for i in range(count)):
            jobs._jobs[name] = Job(name, jobs._root / "none", None, state, seen=9000 - age)

    monkeypatch.setattr(serve_jobs.time, "monotonic", lambda: 9000.0)
    for state, *ages in (("running", 300.0, 300.5), ("done", 1800.0, 1800.5), ("failed", 5)):
        for age in ages:
            add(1, state, age)
    jobs.tidy()
    assert [*jobs._jobs] == ["running 300.0 0", "done 1800.0 0", "failed 5 0"]
    add(19, "done", 4)
    jobs.tidy()  # twenty results are kept, the oldest go first
    assert len(jobs._jobs) == 21 and "done 1800.0 0" not in jobs._jobs
    assert jobs.get("failed 5 0").seen == 9000 and jobs.get("nothing") is None


@pytest.mark.parametrize("stubborn", [True, False])
def test_a_job_that_is_removed_while_it_starts_is_ended(jobs, stubborn):
    job = Job("a", jobs._root)
    process = Mock(start=lambda: setattr(job, "state", "cancelled"))
    process.is_alive.side_effect = [True, stubborn]
    jobs._context.Process = Mock(return_value=process)
    jobs._run(job, {})
    killed = [call.kill(), call.join(2)] if stubborn else []
    assert process.mock_calls == [*ENDED, *killed]
    assert job.state == "cancelled"


def test_the_server_tidies_while_it_runs(jobs, monkeypatch):
    monkeypatch.setattr("softcut.serve.app._TIDY_SECONDS", 0.01)
    twice = threading.Event()
    jobs.tidy = Mock(side_effect=lambda: twice.set() if jobs.tidy.call_count > 1 else None)
    with TestClient(create_app(jobs, ["a:1"]), "http://a:1"):
        assert twice.wait(10)


def test_a_job_that_dies_is_one_sentence(client, monkeypatch):
    monkeypatch.setattr(serve_jobs, "_work", lambda folder, order, sender: sender.close())
    assert "ended without a result" in finished(client, send(client).json()["id"], "failed")["error"]
    monkeypatch.setattr(serve_jobs, "_work", lambda folder, order, sender: sender.send(("failed", "why.")))
    assert finished(client, send(client).json()["id"], "failed")["error"] == "why."


# --------------------------------------------------------------------------- what a job does


def outcome(file, k, **order) -> list[tuple]:
    """What a job tells."""
    told: list[tuple] = []
    sender = SimpleNamespace(send=told.append, close=lambda: None)
    serve_worker.work(sender, file=file, n_clusters=k, **order)
    return told


def failure(file, **order) -> str:
    """The one sentence of a job that fails."""
    ((kind, sentence),) = outcome(file, 2, **order)
    assert kind == "failed"
    return sentence


@pytest.mark.parametrize("features", [False, True])
def test_work_clusters_a_graph(here, features):
    graph = attributed_communities(60, 2, n_features=8, edge_signal=0.9, seed=0)
    names = write_csv(graph, Path("g.csv"), Path("x.csv"), "<b>{}")
    first, *progress, last = outcome("g.csv", 2, features="x.csv" if features else None, n_init=4)
    assert first[0] == "read" and "g.csv" in first[1] and str(here) not in first[1]
    assert [message[0] for message in progress] == ["progress"] * len(progress)
    # The edges alone train nothing.
    assert {message[1] for message in progress} == ({0} if features else set())
    assert last[0] == "done" and last[1]["clusters"] == 2
    rows = Path("labels.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} <= set(names) and (len(rows) == 60 or not features)
    assert last[1]["text"].startswith(f"{len(rows)} nodes in 2 clusters; normalised cut 0.")
    report = Path("report.html").read_text()
    (sentence,) = (s for s in VERDICTS.values() if last[1]["verdict"].startswith(f"{s} Structure "))
    assert report.index(sentence) < report.index("clusters used")
    assert ("Evidence of each distance" in report) is features
    assert "<b>0" not in report
    views = json.loads(Path("views.json").read_text())
    assert [view["view"] for view in views] == [
        "clusters",
        "graph",
        "groups",
        "heat",
        *(["dots"] if features else []),
    ]
    sizes = [row[1]["text"] for row in views[0]["data"]["rows"]]
    assert [line.split(",")[1] for line in Path("clusters.csv").read_text().splitlines()[1:]] == sizes
    assert last[1]["files"] == ["labels.csv", "clusters.csv", "report.html"]


def test_bad_files_are_one_sentence(here, capsys, monkeypatch):
    Path("bad.csv").write_text("a,b\n1,2,3\n")
    assert "bad.csv, line 2" in failure("bad.csv")
    for error, said in ((MemoryError(), "memory is full"), (RuntimeError("secret"), "something went wrong")):
        monkeypatch.setattr(serve_worker, "read_graph", Mock(side_effect=error))
        sentence = failure("bad.csv")
        assert said in sentence and "secret" not in sentence
    assert "secret" in capsys.readouterr().err


def test_orders_have_defaults_and_each_training_is_a_phase_of_its_own(here, monkeypatch):
    Image.new("1", (5000, 4000)).save("most.png")
    Image.new("1", (6_666_667, 3)).save("more.png")
    divide = Mock(side_effect=ParameterError("enough"))
    monkeypatch.setattr("softcut.segment.segment_image", divide)
    assert failure("most.png", picture=True) == "enough"
    divide.assert_called_once_with("most.png", 2, random_state=0, device="cpu")
    assert "more than 20,000,000" in failure("more.png", picture=True)
    read = Mock(return_value=SimpleNamespace(notes=["a", "b"]))
    monkeypatch.setattr(serve_worker, "read_graph", read)

    def fit(k, *, callbacks, **settings):
        assert (k, settings) == (2, {"n_init": None, "random_state": 0, "device": "cpu"})
        for i in (1, 25, 25, 10):
            callbacks[0](SimpleNamespace(iteration=i, iterations=30, cut=np.array([1, 2]), ortho=np.ones(2)))
        raise ParameterError("enough")

    monkeypatch.setattr(serve_worker, "GraphClustering", fit)
    progress = [("progress", phase, i, 30, 1.5, 1.0) for phase, i in ((0, 1), (0, 25), (1, 25), (2, 10))]
    assert outcome("g.csv", 2) == [("read", "a; b"), *progress, ("failed", "enough")]
    read.assert_called_once_with("g.csv", features=None, max_bytes=2**28)


def test_pictures_are_segmented_and_bad_ones_are_one_sentence(here, monkeypatch):
    pytest.importorskip("softcut.segment")
    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 30:] = (250, 200, 0)
    Image.fromarray(image).save("b.png")
    ((kind, done),) = outcome("b.png", 2, picture=True)
    assert kind == "done" and done["files"] == ["labels.png", "overlay.png"]
    labels = np.asarray(Image.open("labels.png"))
    assert (labels[:, :30] == labels[0, 0]).mean() > 0.9 and labels[0, 0] != labels[0, -1]
    assert Image.open("overlay.png").size == (60, 40)
    Path("a.png").write_bytes(b"no picture")
    assert "a.png cannot be read as an image" in failure("a.png", picture=True)
    monkeypatch.setattr(serve_worker, "_PIXELS", 100)
    assert "60 x 40 pixels" in failure("b.png", picture=True)


def test_jobs_are_processes_that_can_be_ended():
    with Jobs() as jobs:
        assert jobs.most_running == 4
    with Jobs(most_running=1) as jobs:
        assert jobs._context.get_start_method() in ("forkserver", *["spawn"] * (sys.platform == "win32"))
        folder = jobs.new_folder()
        lines = [f"{a} {b}" for a in range(400) for b in (a + 1, a + 7, a + 31)]
        (folder / "g.txt").write_text("\n".join(lines))
        job = jobs.start(folder, file="g.txt", n_clusters=20)
        with pytest.raises(ParameterError, match="1 jobs are running"):
            jobs.start(jobs.new_folder(), file="g.txt", n_clusters=2)
        end = time.monotonic() + 100
        while not job.events and job.state == "running" and time.monotonic() < end:
            time.sleep(0.05)
        assert job.events[0][0] == "read"
        process = job.process
        assert process.is_alive()
        assert jobs.remove(job.id)
        assert not process.is_alive()
        assert job.state == "cancelled"
        assert not folder.exists()
