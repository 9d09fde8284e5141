"""The local page: who may ask, what may be sent, and what becomes of jobs and their files."""

import asyncio
import multiprocessing
import os
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock, call

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("python_multipart")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP library
    from starlette.testclient import TestClient, WebSocketDenialResponse

from softcut.errors import ParameterError, SoftcutError
from softcut.io.read_options import READ_OPTIONS
from softcut.serve import jobs as serve_jobs
from softcut.serve.app import _limited, create_app
from softcut.serve.examples import example_file, examples
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
            k = order["n_clusters"]
            sender.send(("read", {**order, "n_clusters": [min(k), max(k)] if isinstance(k, range) else k}))
            if order["n_clusters"] == 7:
                held.wait(20)
            if not folder.exists():
                return
            (folder / "labels.csv").write_text("node,cluster\n")
            (folder / "report.html").write_text("<p>")
            sender.send(("progress", 0, 25, 200, -0.5, 0.25, 8.0))
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
    same = {"seed": 7, "reading": {}, "n_init": None, "max_bytes": 400_000, "threads": 4}
    for file, k, picture in (("Photo.PNG", "auto", True), ("ring.csv.gz", "100", False)):
        answer = send(client, file, k=k, seed="7")
        assert answer.status_code == 201
        name = answer.json()["id"]
        assert len(name) == 22  # 16 random bytes
        order = {"file": file, "picture": picture, "features": None, "n_clusters": "auto" if picture else 100}
        assert finished(client, name)["events"][0] == ["read", order | same]
    events = [["read", order | same], ["progress", 0, 25, 200, -0.5, 0.25, 8.0]]
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
    answer = client.post("/jobs", files=order, data={"seed": 2**32 - 1, "weight": "w"})
    read = finished(client, answer.json()["id"])["events"][0][1]
    assert (read["features"], read["n_clusters"], read["seed"]) == ("x.csv", "auto", 2**32 - 1)
    empty = client.post("/jobs", files={"file": ("g.csv", EDGES)}, data={"k": " "}).json()["id"]
    assert finished(client, empty)["events"][0][1]["n_clusters"] == "auto"
    assert client.get(f"/jobs/{empty}").json()["clusters"] == "auto"
    monkeypatch.setattr("os.cpu_count", lambda: None)
    read = finished(client, send(client).json()["id"])["events"][0][1]
    assert (read["seed"], read["threads"]) == (0, 1)
    for files, fields in ((3, 1), (1, 200)):
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
        *((name, "2", "0", "must end in one of") for name in ("virus.exe", ".csv", "a.parquet", "a.h5ad")),
        *(("a.csv", k, "0", "number of clusters") for k in ("many", "0", "101", "99999999999999999999")),
        *(("a.csv", k, "0", "number of clusters") for k in ("000000002000", "007", "1" * 900)),
        *(("a.csv", k, "0", "number of clusters") for k in ("12-2", "2-200", "2-")),
        ("a.csv", "\u0663", "0", "number of clusters"),  # a digit of another script
        ("a.csv", "1" * 5000, "0", "5,000 characters"),
        ("a.png", "2-12", "0", "a picture takes one number"),
        *(("a.csv", "2", seed, "seed") for seed in ("-1", "4294967296", "42949672950", "x", "00")),
        ("a.csv", "2", "0" * 9 + "1" * 900, "seed"),
    ],
)
def test_bad_orders_are_one_sentence_and_leave_no_files(client, jobs, name, k, seed, said):
    answer = send(client, name, k=k, seed=seed)
    assert answer.status_code == 400
    assert said in answer.json()["error"] and len(answer.json()["error"]) < 200
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


def awaited(coroutine):
    """Its result; in a thread, as the browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_an_upload_may_have_so_many_bytes_and_no_more():
    async def receive():
        return {"body": bytes(50)}

    limited = _limited(receive, 100)
    assert [len(awaited(limited())["body"]) for _ in range(2)] == [50, 50]
    with pytest.raises(SoftcutError, match="larger than 0 MB"):
        awaited(_limited(receive, 49)())


def test_an_upload_that_breaks_off_leaves_nothing(jobs):
    kind = (b"content-type", b"multipart/form-data; boundary=x")
    scope = {"type": "http", "method": "POST", "path": "/jobs", "headers": [(b"host", b"a:1"), kind]}
    said = []

    async def call():
        receive = AsyncMock(
            side_effect=[{"type": "http.request", "body": b"--x"}, {"type": "http.disconnect"}]
        )
        await create_app(jobs, ["a:1"])(scope, receive, AsyncMock(side_effect=said.append))

    awaited(call())
    assert said[0]["status"] == 400 and not list(jobs._root.iterdir())


def test_old_results_are_removed(jobs, monkeypatch):
    def add(count, state, age):
        for name in (f"{state} {age} {i}" for i in range(count)):
            jobs._jobs[name] = Job(name, jobs._root / "none", state=state, seen=9000 - age)

    monkeypatch.setattr(serve_jobs.time, "monotonic", lambda: 9000.0)
    for state, *ages in (("running", 1800.0, 1800.5), ("done", 1800.0, 1800.5), ("failed", 5)):
        for age in ages:
            add(1, state, age)
    jobs.tidy()
    assert [*jobs._jobs] == ["running 1800.0 0", "done 1800.0 0", "failed 5 0"]
    add(19, "done", 4)
    jobs.tidy()  # twenty results are kept, the oldest go first
    assert len(jobs._jobs) == 21 and "done 1800.0 0" not in jobs._jobs
    assert jobs.get("failed 5 0").seen == 9000 and jobs.get("nothing") is None


def test_a_page_that_was_closed_finds_its_jobs_again(jobs, client, held):
    done = send(client).json()["id"]
    finished(client, done)
    held.clear()
    running = send(client, k="7").json()["id"]
    jobs.get(running).seen -= jobs.idle_seconds - 60
    jobs.tidy()
    assert client.get("/jobs", params={"id": [running, "gone"]}).json()["jobs"] == [
        {"id": running, "state": "running", "file": "ring.csv", "clusters": "7"}
    ]
    jobs.get(running).seen -= jobs.idle_seconds + 60
    jobs.tidy()
    assert jobs.get(running) is None and jobs.get(done) is not None


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
    monkeypatch.setattr(
        serve_jobs, "_work", lambda folder, order, sender: sender.send(("failed", "why.", "k"))
    )
    assert finished(client, send(client).json()["id"], "failed")["error"] == "why."


def test_what_a_job_tells_is_not_its_result(client, monkeypatch):
    def compare(folder, order, sender):
        with sender:
            sender.send(("comparing", 3, 2, 4))
            sender.send(("done", {"clusters": 3}))

    monkeypatch.setattr(serve_jobs, "_work", compare)
    job = finished(client, send(client).json()["id"])
    assert (job["events"], job["result"], job["error"]) == ([["comparing", 3, 2, 4]], {"clusters": 3}, "")
    asked = [*["gone"] * 49, job["id"], job["id"]]  # fifty are looked up
    assert [one["id"] for one in client.get("/jobs", params={"id": asked}).json()["jobs"]] == [job["id"]]


# --------------------------------------------------------------------------- the fields of reading


def order_of(client, name="a.csv", **fields) -> dict:
    """What a job is asked to do, by a form with these fields."""
    answer = send(client, name, **fields)
    assert answer.status_code == 201, answer.json()
    return finished(client, answer.json()["id"])["events"][0][1]


def test_a_field_has_a_thousand_characters_at_most(client):
    assert order_of(client, weight="w" * 1000)["reading"] == {"weight": "w" * 1000}
    refused = send(client, weight="w" * 1001)
    assert refused.status_code == 400 and "1,001 characters, more than 1,000" in refused.json()["error"]


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
    reading = order_of(
        client,
        weight=" strength ",
        missing="mean",
        weighted="no",
        self_loops="yes",
        ids="none",
        delimiter=" ",
        source="",
        **{several: 'city, "name, in full"'},
    )["reading"]
    assert reading == {
        "weight": "strength",
        "missing": "mean",
        "weighted": False,
        "self_loops": "keep",
        several: ["city", "name, in full"],
        "ids": False,
        "delimiter": " ",
    }
    assert order_of(client, **{several: "*"}, missing="error")["reading"] == {several: True}
    assert [order_of(client, k=k)["n_clusters"] for k in ("2-12", "2:12")] == [[2, 12], [2, 12]]
    assert order_of(client, k="5\u20135")["n_clusters"] == 5
    assert order_of(client, "g.gml", attributes="yes")["features"] == "attributes"


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


def test_features_may_be_sent_alone(client):
    answer = client.post("/jobs", files={"features": ("x.csv", b"1")}, data={"n_neighbors": "5"})
    order = finished(client, answer.json()["id"])["events"][0][1]
    assert order["file"] == order["features"] == "x.csv" and order["reading"] == {"n_neighbors": 5}
    alone = client.post("/jobs", data={"attributes": "yes"})
    assert "no file was sent" in alone.json()["error"]


def test_examples_are_files_of_the_server(client):
    page = client.get("/").text
    root = Path(__file__).parents[2]
    for example in examples():
        for name in filter(None, (example.file, example.features)):
            content = client.get(f"/examples/{name}").content
            assert content == example_file(name)
            if name.endswith(".csv"):
                assert content == (root / "examples" / name).read_bytes()  # those of the README
                assert f'data-file="{example.file}"' in page
    assert (find_spec("skimage") is not None) == ("astronaut.png" in {example.file for example in examples()})
    assert client.get("/examples/form.py").status_code == 404


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
