"""The local page: drop in a graph or a picture, watch the losses, look at the clusters, take the labels home.

Only for people at this machine: requests that name another host (a foreign name that was pointed here) or that come
from another site's page are refused, uploads are limited in size, and every answer forbids the page to load anything
else.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from softcut.errors import FileFormatError, ParameterError, SoftcutError, require
from softcut.report.html_page import VIEW_SCRIPTS, page_environment, template_text
from softcut.serve.jobs import Jobs

_GRAPHS = (
    *(".csv", ".tsv", ".txt", ".edges", ".edgelist", ".xlsx", ".graphml", ".gexf", ".gml", ".net", ".json"),
    *(".mtx", ".npz"),
)
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
_FEATURES = (".csv", ".tsv", ".txt", ".xlsx", ".npy", ".npz")
_STATIC = {**dict.fromkeys((*VIEW_SCRIPTS, "serve.js"), "text/javascript"), "page.css": "text/css"}
_TYPES = {
    "labels.csv": "text/csv",
    "clusters.csv": "text/csv",
    "views.json": "application/json",
    "report.html": "text/html",
    "labels.png": "image/png",
    "overlay.png": "image/png",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}
# The report of a graph brings its own policy; it stands alone and may ask the server for nothing.
_REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"
_MOST_CLUSTERS = 100
_TIDY_SECONDS = 30


class _TooLarge(SoftcutError):
    """An upload went past its limit."""


def create_app(
    jobs: Jobs, hosts: Iterable[str], max_upload: int = 50_000_000, n_init: int | None = None
) -> Any:
    """The web application; it closes `jobs` when it ends.

    `hosts` are the names with ports under which the page may be asked for, `max_upload` the most bytes of an upload,
    `n_init` the networks of each fit (None: the estimator's).
    """
    names = ("applications", "requests", "routing", "responses", "concurrency")
    modules = [require(f"starlette.{name}", "serve", "softcut serve") for name in names]
    applications, requests, routing, responses, threads = modules
    require("python_multipart", "serve", "softcut serve")

    def refused(sentence: str, code: int = 400) -> Any:
        return responses.JSONResponse({"error": sentence}, code)

    gone = "this job does not exist (any more); start it again."

    async def index(request: Any) -> Any:
        page = page_environment().get_template("serve.html.j2")
        accepted = ",".join((*_GRAPHS, ".gz", *_PICTURES))
        return responses.HTMLResponse(
            page.render(accepted=accepted, features=",".join(_FEATURES), megabytes=max_upload // 10**6)
        )

    async def static(request: Any) -> Any:
        name = request.path_params["name"]
        if name not in _STATIC:
            return refused("there is no such file.", 404)
        return responses.Response(template_text(name), media_type=_STATIC[name])

    async def create(request: Any) -> Any:
        folder: Path | None = None
        try:
            jobs.check_free()
            limited = requests.Request(request.scope, _limited(request.receive, max_upload))
            async with limited.form(max_files=2, max_fields=4) as form:
                folder = jobs.new_folder()
                order = await threads.run_in_threadpool(_order, form, folder)
            limits = {"n_init": n_init, "max_bytes": 4 * max_upload}
            job = await threads.run_in_threadpool(jobs.start, folder, **order, **limits)
            folder = None
        except SoftcutError as error:
            return refused(str(error), 413 if isinstance(error, _TooLarge) else 400)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        return responses.JSONResponse({"id": job.id}, 201)

    async def show(request: Any) -> Any:
        job = jobs.get(request.path_params["id"])
        if job is None:
            return refused(gone, 404)
        since = request.query_params.get("since", "0")
        first = int(since) if since.isdecimal() and len(since) < 10 else 0
        state = job.state  # read first: events that come meanwhile are sent next time
        return responses.JSONResponse(
            {"state": state, "events": job.events[first:], "error": job.error, "result": job.result}
        )

    async def file(request: Any) -> Any:
        job, name = jobs.get(request.path_params["id"]), request.path_params["name"]
        if job is None or job.state != "done" or name not in _TYPES or not (job.folder / name).is_file():
            return refused(gone, 404)
        headers = {"content-security-policy": _REPORT_POLICY} if name == "report.html" else {}
        if name.startswith("labels"):
            headers["content-disposition"] = f'attachment; filename="{name}"'
        return responses.FileResponse(job.folder / name, media_type=_TYPES[name], headers=headers)

    async def cancel(request: Any) -> Any:
        removed = await threads.run_in_threadpool(jobs.remove, request.path_params["id"])
        return responses.JSONResponse({"removed": True}) if removed else refused(gone, 404)

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async def tidy() -> None:
            while True:
                await asyncio.sleep(_TIDY_SECONDS)
                await threads.run_in_threadpool(jobs.tidy)

        task = asyncio.create_task(tidy())
        try:
            yield
        finally:
            task.cancel()
            await threads.run_in_threadpool(jobs.close)

    route = routing.Route
    app = applications.Starlette(
        lifespan=lifespan,
        routes=[
            route("/", index),
            route("/static/{name}", static),
            route("/jobs", create, methods=["POST"]),
            route("/jobs/{id}", show),
            route("/jobs/{id}", cancel, methods=["DELETE"]),
            route("/jobs/{id}/{name}", file),
        ],
    )
    return _Guard(app, hosts)


def _limited(receive: Callable[[], Any], most: int) -> Callable[[], Any]:
    """The same as `receive`, up to a number of bytes."""
    received = 0

    async def limited() -> Any:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise _TooLarge(
                f"the upload is larger than {most / 1e6:.0f} MB; use softcut cluster on the command line."
            )
        return message

    return limited


def _order(form: Any, folder: Path) -> dict[str, Any]:
    """Save the uploaded files and read the fields of the form."""
    file = _saved(form.get("file"), folder, (*_GRAPHS, *_PICTURES), "file")
    if file is None:
        raise ParameterError("no file was sent: drop in an edge list or a picture.")
    features = _saved(form.get("features"), folder, _FEATURES, "features")
    if features == file:
        raise ParameterError("the graph and its features have the same file name; rename one of them.")
    k, seed = str(form.get("k", "auto")).strip(), str(form.get("seed", "0")).strip()
    if k != "auto" and not (k.isdecimal() and 1 <= int(k[:9]) <= _MOST_CLUSTERS):
        raise ParameterError(
            f"the number of clusters must be 'auto' or from 1 to {_MOST_CLUSTERS}, got {k[:20]!r}."
        )
    if not (seed.isdecimal() and int(seed[:11]) < 2**32):
        raise ParameterError(f"the seed must be a whole number from 0 to 2^32 - 1, got {seed[:20]!r}.")
    n_clusters = k if k == "auto" else int(k)
    picture = file.lower().endswith(_PICTURES)
    return {
        "file": file,
        "picture": picture,
        "features": features,
        "n_clusters": n_clusters,
        "seed": int(seed),
    }


def _saved(upload: Any, folder: Path, endings: tuple[str, ...], field: str) -> str | None:
    """Write an uploaded file under its own name, without anything that means something to a file system."""
    if upload is None or isinstance(upload, str) or not upload.filename:
        return None
    name = re.sub(r"[^A-Za-z0-9._ -]", "_", re.split(r"[/\\]", upload.filename)[-1]).strip(" .")[-80:]
    bare = name.lower().removesuffix(".gz")
    if not bare.endswith(endings) or bare in endings:
        raise FileFormatError(f"{field}: {name or 'the file'} must end in one of {', '.join(endings)}.")
    with (folder / name).open("wb") as target:
        shutil.copyfileobj(upload.file, target)
    return name


class _Guard:
    """Refuses what does not come from this page, and says in every answer what a browser may do with it."""

    def __init__(self, app: Any, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.origins = frozenset(f"http://{host}" for host in self.hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        pairs = scope.get("headers", ())
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in pairs}
        problem = self.problem(headers)
        if scope["type"] != "http" or problem:
            responses = require("starlette.responses", "serve", "softcut serve")
            error = {"error": problem or "only HTTP is spoken here."}
            await responses.JSONResponse(error, 403)(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                known = {key.lower() for key, _ in message["headers"]}
                more = [(key, value) for key, value in _HEADERS.items() if key not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self.app(scope, receive, guarded)

    def problem(self, headers: dict[str, str]) -> str:
        """Why a request is refused; empty where it is not."""
        if headers.get("host", "") not in self.hosts:
            return "this page answers to its own address only."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if (origin is not None and origin not in self.origins) or site not in ("same-origin", "none"):
            return "requests from other pages are refused."
        return ""
