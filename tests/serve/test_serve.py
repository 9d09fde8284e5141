"""The local page: who may ask, what may be sent, and what becomes of jobs and their files."""

import json
import multiprocessing
import os
import threading
import time
import warnings
import zipfile
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.csv_files import write_csv
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("python_multipart")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP library
    from starlette.testclient import TestClient

from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.io.read_options import READ_OPTIONS
from softcut.report.clustering_files import VERDICTS
from softcut.serve import jobs as serve_jobs
from softcut.serve import worker as serve_worker
from softcut.serve.app import create_app
from softcut.serve.examples import example_file, examples
from softcut.serve.jobs import Jobs

EDGES = b"source,target\n" + b"".join(b"%d,%d\n" % (i, (i + 1) % 12) for i in range(12))


class ThreadProcess:
    """A process that is a thread of this one."""

    def __init__(self, target, args, daemon):
        folder, order, sender = args  # the server closes its own end
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
            k, reading = order["n_clusters"], order["reading"]
            k = [min(k), max(k)] if isinstance(k, range) else k
            sender.send(
                ("read", order["file"], order["picture"], k, order["seed"], order["features"], reading)
            )
            if order["n_clusters"] == 7:
                held.wait(20)
            if not folder.exists():
                return
            (folder / "labels.csv").write_text("node,cluster\n")
            (folder / "report.html").write_text("<p>")
            sender.send(("progress", 0, 25, 200, -0.5, 0.25))
            sender.send(("done", {"kind": "graph", "files": ["labels.csv"]}))

    monkeypatch.setattr(serve_jobs, "_work", fake)
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", lambda: None)
    jobs = Jobs(most_running=2)
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


def test_a_job_from_upload_to_labels(client):
    for file, k, picture in (("Photo.PNG", "auto", True), ("ring.csv", "2", False)):
        answer = send(client, file, k=k, seed="7")
        assert answer.status_code == 201
        name = answer.json()["id"]
        read = finished(client, name)["events"][0]
        assert read == ["read", file, picture, k if picture else 2, 7, None, {}]
    events = [read, ["progress", 0, 25, 200, -0.5, 0.25]]
    assert finished(client, name)["events"] == events
    assert client.get(f"/jobs/{name}?since=1").json()["events"] == events[1:]
    labels = client.get(f"/jobs/{name}/labels.csv")
    assert labels.text == "node,cluster\n"
    assert labels.headers["content-disposition"] == 'attachment; filename="labels.csv"'
    assert "sandbox" in client.get(f"/jobs/{name}/report.html").headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8050"},
        {"host": "127.0.0.1:9999"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8050"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/jobs"), ("DELETE", "/jobs/x")])
def test_other_pages_are_refused(client, jobs, headers, method, path):
    answer = client.request(
        method, path, headers=headers, files={"file": ("a.csv", EDGES)} if path == "/jobs" else None
    )
    assert answer.status_code == 403
    assert answer.json()["error"].endswith(".")
    assert not list(jobs._root.iterdir())


def test_this_page_is_served_and_may_load_nothing_from_elsewhere(client):
    page = client.get("/", headers={"origin": "http://127.0.0.1:8050", "sec-fetch-site": "same-origin"})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "'unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in ("page.css", "views.js", "view_graph.js", "view_charts.js", "serve.js"):
        assert f"/static/{path}" in page.text
        assert client.get(f"/static/{path}").status_code == 200
    for path in ("page.html.j2", "../html_page.py", "..%2Fhtml_page.py"):
        assert client.get(f"/static/{path}").status_code == 404


@pytest.mark.parametrize(
    ("name", "k", "seed", "said"),
    [
        ("virus.exe", "2", "0", "must end in one of"),
        (".csv", "2", "0", "must end in one of"),
        ("a.csv", "many", "0", "number of clusters"),
        ("a.csv", "0", "0", "number of clusters"),
        ("a.csv", "101", "0", "number of clusters"),
        ("a.csv", "99999999999999999999", "0", "number of clusters"),
        ("a.csv", "000000002000", "0", "number of clusters"),
        ("a.csv", "007", "0", "number of clusters"),
        ("a.csv", "\u0663", "0", "number of clusters"),  # a digit of another script
        ("a.csv", "1" * 900, "0", "number of clusters"),
        ("a.csv", "1" * 5000, "0", "5,000 characters"),
        ("a.csv", "12-2", "0", "number of clusters"),
        ("a.csv", "2-200", "0", "number of clusters"),
        ("a.csv", "2-", "0", "number of clusters"),
        ("a.png", "2-12", "0", "a picture takes one number"),
        ("a.csv", "2", "00", "seed"),
        ("a.csv", "2", "-1", "seed"),
        ("a.csv", "2", "4294967296", "seed"),
        ("a.csv", "2", "0" * 9 + "1" * 900, "seed"),
    ],
)
def test_bad_orders_are_one_sentence_and_leave_no_files(client, jobs, name, k, seed, said):
    answer = send(client, name, k=k, seed=seed)
    assert answer.status_code == 400
    assert said in answer.json()["error"] and len(answer.json()["error"]) < 200
    assert "no file was sent" in client.post("/jobs", data={"k": "2"}).json()["error"]
    same = {"file": ("a.csv", EDGES), "features": ("a.csv", b"1")}
    assert "same file name" in client.post("/jobs", files=same).json()["error"]
    large = send(client, content=b"1 2\n" * 50_000)
    assert large.status_code == 413 and "larger than 0 MB" in large.json()["error"]
    assert not list(jobs._root.iterdir())


@pytest.mark.parametrize("name", ["../../evil.csv", "..\\evil.csv", "/etc/evil.csv", "a;b\n$(x).csv"])
def test_names_of_uploads_cannot_leave_their_folder(client, jobs, name):
    job = send(client, name).json()["id"]
    finished(client, job)
    (file,) = {p.name for p in (jobs._root / job).iterdir()} - {"labels.csv", "report.html"}
    assert file == ("evil.csv" if "evil" in name else "a_b_0A__x_.csv")


def test_two_users_do_not_wait_for_each_other_and_a_third_is_told_to(client, held):
    held.clear()
    slow = send(client, k="7").json()["id"]
    quick = send(client, k="2").json()["id"]
    finished(client, quick)
    assert client.get(f"/jobs/{slow}").json()["state"] == "running"
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
    for answer in (
        client.get(f"/jobs/{name}"),
        client.delete(f"/jobs/{name}"),
        client.get(f"/jobs/{name}/labels.csv"),
    ):
        assert answer.status_code == 404
        assert "does not exist" in answer.json()["error"]


def test_files_are_removed_at_the_end(jobs):
    with TestClient(create_app(jobs, ["a:1"]), "http://a:1") as client:
        finished(client, send(client, k="1").json()["id"])  # the fewest clusters
        assert list(jobs._root.rglob("ring.csv"))
    assert not jobs._root.exists()


def test_old_results_are_removed(jobs, client, held):
    names = [send(client).json()["id"] for _ in range(2)]
    for name in names:
        finished(client, name)
    jobs.most_kept = 1
    jobs.tidy()
    assert [jobs.get(name) is None for name in names] == [True, False]
    held.clear()
    running = send(client, k="7").json()["id"]
    jobs.get(running).seen -= jobs.idle_seconds - 60  # a page that was closed may be opened again
    jobs.tidy()
    assert client.get("/jobs", params={"id": [running, names[0]]}).json()["jobs"] == [
        {"id": running, "state": "running", "file": "ring.csv", "clusters": "7"}
    ]
    jobs.get(running).seen -= jobs.idle_seconds + 60
    jobs.tidy()
    assert jobs.get(running) is None
    assert jobs.get(names[1]) is not None


def test_the_server_tidies_while_it_runs(jobs, monkeypatch):
    monkeypatch.setattr("softcut.serve.app._TIDY_SECONDS", 0.01)
    twice = threading.Event()
    jobs.tidy = Mock(side_effect=lambda: twice.set() if jobs.tidy.call_count > 1 else None)
    with TestClient(create_app(jobs, ["a:1"]), "http://a:1"):
        assert twice.wait(10)


def test_a_job_that_dies_is_one_sentence(client, monkeypatch):
    monkeypatch.setattr(serve_jobs, "_work", lambda folder, order, sender: sender.close())
    assert "ended without a result" in finished(client, send(client).json()["id"], "failed")["error"]


# --------------------------------------------------------------------------- the fields of reading


def order_of(client, name="a.csv", **fields) -> list:
    """What a job is asked to do, by a form with these fields."""
    answer = send(client, name, **fields)
    assert answer.status_code == 201, answer.json()
    return finished(client, answer.json()["id"])["events"][0][1:]


def test_every_option_of_reading_is_a_field_of_the_page(client):
    page = client.get("/").text
    limits = {"max_bytes", "format"}  # those of the server hold
    for name in set(READ_OPTIONS) - limits:
        assert f'name="{name}"' in page
    for word in ("error", "zero", "mean", "drop", "weighted", "unweighted"):
        assert f">{word}</option>" in page
    assert not any(f'name="{name}"' in page for name in limits)


def test_fields_mean_what_the_options_of_the_command_line_mean(client):
    several = next(name for name, (option, _) in READ_OPTIONS.items() if "*" in option.words)
    *_, reading = order_of(
        client,
        weight=" strength ",
        missing="mean",
        weighted="no",
        self_loops="yes",
        ids="none",
        delimiter=" ",
        source="",
        **{several: 'city, "name, in full"'},
    )
    assert reading == {
        "weight": "strength",
        "missing": "mean",
        "weighted": False,
        "self_loops": "keep",
        several: ["city", "name, in full"],
        "ids": False,
        "delimiter": " ",
    }
    assert order_of(client, **{several: "*"}, missing="error")[-1] == {several: True}
    assert order_of(client, k="2-12")[2] == order_of(client, k="2:12")[2] == [2, 12]
    assert order_of(client, k="5\u20135")[2] == 5
    assert order_of(client, "g.gml", attributes="yes")[4] == "attributes"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"missing": "guess"}, "'missing' must be one of: error, zero, mean, drop; got 'guess'."),
        ({"weighted": "maybe"}, "'weighted' must be one of"),
        ({"self_loops": "drop"}, "'keep self loops' must be one of: ticked"),
        ({"weight": "w" * 1001}, "'weight' has 1,001 characters"),
        ({"weight": "a\nb"}, "cannot be shown"),
        ({"max_bytes": "99999999999"}, "no field called 'max_bytes'"),
        ({"format": "parquet"}, "no field called 'format'"),
        ({"attributes": "no"}, "'node attributes' is ticked or not"),
        ({f"x{i}": "1" for i in range(200)}, "the form cannot be read"),
        ({"name": "a.png", "weight": "w"}, "'weight' is about graphs"),
    ],
)
def test_each_field_is_checked_by_the_server_in_one_sentence(client, jobs, fields, said):
    answer = send(client, **fields)
    assert answer.status_code == 400 and said in answer.json()["error"]
    assert not list(jobs._root.iterdir())


def test_files_and_text_are_not_taken_for_each_other(client):
    both = {"file": ("a.csv", EDGES), "features": ("x.csv", b"1")}
    answer = client.post("/jobs", files=both, data={"attributes": "yes"})
    assert "not both" in answer.json()["error"]
    answer = client.post("/jobs", files={"file": ("a.csv", EDGES), "weight": ("w.csv", b"1")})
    assert "takes text, not a file" in answer.json()["error"]
    answer = client.post("/jobs", files={"file": ("a.png", b""), "features": ("x.csv", b"1")})
    assert "a picture has no file of features" in answer.json()["error"]


def test_examples_are_uploads_that_work(client, here):
    page = client.get("/").text
    root = Path(__file__).parents[2]
    for example in examples():
        for name in filter(None, (example.file, example.features)):
            content = client.get(f"/examples/{name}").content
            assert content == example_file(name)
            if name.endswith(".csv"):
                assert content == (root / "examples" / name).read_bytes()  # those of the README
                (here / name).write_bytes(content)
                assert f'data-file="{example.file}"' in page
    assert client.get("/examples/form.py").status_code == 404
    for example in examples()[:2]:
        k = range(2, 5) if example.features else "auto"
        told = outcome(example.file, k, features=example.features or None, n_init=4)
        assert told[-1][0] == "done"


# --------------------------------------------------------------------------- what a job does


def outcome(file, k, **order) -> list[tuple]:
    """What a job tells."""
    told: list[tuple] = []
    sender = SimpleNamespace(send=told.append, close=lambda: None)
    serve_worker.work(sender, file=file, n_clusters=k, **order)
    return told


def failure(file, **order) -> str:
    """The one sentence of a job that fails."""
    ((kind, sentence, field),) = outcome(file, 2, **order)
    assert kind == "failed" and field in READ_OPTIONS | {"": None}
    return sentence


@pytest.mark.parametrize("features", [False, True])
def test_work_clusters_a_graph(here, features):
    graph = attributed_communities(60, 2, n_features=8, edge_signal=0.9, seed=0)
    names = write_csv(graph, Path("g.csv"), Path("x.csv"), "<b>{}")
    first, *progress, last = outcome("g.csv", 2, features="x.csv" if features else None, n_init=4)
    assert first[0] == "read" and "g.csv" in first[1][0] and str(here) not in str(first[1])
    assert [message[0] for message in progress] == ["progress"] * len(progress)
    assert {message[1] for message in progress} == (
        {0} if features else set()
    )  # the edges alone train nothing
    assert last[0] == "done" and last[1]["clusters"] == 2
    rows = Path("labels.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} <= set(names) and (len(rows) == 60 or not features)
    assert last[1]["text"].startswith(f"{len(rows)} nodes in 2 clusters, found in ")
    assert (
        "the clusters come from the edges alone: no features were given." in last[1]["notes"]
    ) is not features
    assert "the clusters come from the edges and the features." not in last[1]["notes"]  # a detail
    report = Path("report.html").read_text()
    assert last[1]["verdict"] in VERDICTS.values()
    assert report.index(last[1]["verdict"]) < report.index("clusters used")
    assert ("Evidence of each distance" in report) is features
    assert "<b>0" not in report
    views = json.loads(Path("views.json").read_text())
    assert [view["view"] for view in views] == ["graph", "groups", "heat", *(["dots"] if features else [])]


def test_work_tells_what_was_read_and_which_number_it_is_at(here):
    graph = attributed_communities(60, 2, n_features=8, edge_signal=0.9, seed=0)
    write_csv(graph, Path("g.csv"))
    reading = {"weighted": False, "source": "target", "target": "source"}
    (_, notes), *events, (kind, done) = outcome("g.csv", range(2, 5), reading=reading)
    assert any("source 'target'" in note for note in notes)
    assert events == [("comparing", k, 2, 4) for k in (2, 3, 4)]
    assert kind == "done" and done["clusters"] == 2


def test_sentences_of_a_job_name_the_fields_of_the_page(here):
    Path("g.csv").write_text("source,target\n0,1\n1,2\n0,2\n")
    Path("x.csv").write_text("id,age\n0,3\n1,\n2,5\n")
    ((kind, sentence, field),) = outcome("g.csv", 2, features="x.csv")
    assert kind == "failed" and field == "missing" and "'missing: zero'" in sentence
    *_, (kind, sentence, field) = outcome("g.csv", 9)
    assert kind == "failed" and field == "n_clusters"
    assert sentence.startswith("the number of clusters is 9 but the graph has only 3 nodes")


def test_bad_files_are_one_sentence(here, capsys, monkeypatch):
    Path("bad.csv").write_text("a,b\n1,2,3\n")
    assert "bad.csv, line 2" in failure("bad.csv")
    for error, said in ((MemoryError(), "memory is full"), (RuntimeError("secret"), "something went wrong")):
        monkeypatch.setattr(serve_worker, "read_graph", Mock(side_effect=error))
        sentence = failure("bad.csv")
        assert said in sentence and "secret" not in sentence
    assert "secret" in capsys.readouterr().err


def test_pictures_are_segmented_and_bad_ones_are_one_sentence(here, monkeypatch):
    pytest.importorskip("softcut.segment")
    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 30:] = (250, 200, 0)
    Image.fromarray(image).save("b.png")
    ((kind, done),) = outcome("b.png", 2, picture=True)
    assert kind == "done" and done["files"] == ["overlay.png", "cut-outs.zip", "labels.png"]
    labels = np.asarray(Image.open("labels.png"))
    assert (labels[:, :30] == labels[0, 0]).mean() > 0.9 and labels[0, 0] != labels[0, -1]
    assert Image.open("overlay.png").size == (60, 40)
    with zipfile.ZipFile("cut-outs.zip") as archive:
        assert archive.namelist() == ["segment-0.png", "segment-1.png"]
        cut = [np.asarray(Image.open(archive.open(name))) for name in archive.namelist()]
    assert sum((each[..., 3] == 255).sum() for each in cut) == 60 * 40
    assert {tuple(each[each[..., 3] == 255][0, :3]) for each in cut} == {(0, 0, 0), (250, 200, 0)}
    Path("a.png").write_bytes(b"no picture")
    assert "a.png cannot be read as an image" in failure("a.png", picture=True)
    monkeypatch.setattr(serve_worker, "_PIXELS", 100)
    assert "60 x 40 pixels" in failure("b.png", picture=True)


def test_jobs_are_processes_that_can_be_ended():
    with Jobs(most_running=1) as jobs:
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
