"""The local page: drop in a graph or a picture, watch the losses, look at the clusters, take the labels home.

Only for people at this machine: requests that name another host (a foreign name that was pointed here) or that come
from another site's page are refused, uploads are limited in size, and every answer forbids the page to load anything
else.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from softcut.errors import SoftcutError, require
from softcut.report.html_page import VIEW_SCRIPTS, page_environment, template_text
from softcut.serve.examples import example_file, examples
from softcut.serve.form import FEATURES, GRAPHS, PICTURES, most_fields, read_form, reading_fields, worded
from softcut.serve.jobs import Job, Jobs

_STATIC = {**dict.fromkeys((*VIEW_SCRIPTS, "serve.js"), "text/javascript"), "page.css": "text/css"}
_TYPES = {
    "labels.csv": "text/csv",
    "clusters.csv": "text/csv",
    "communities.json": "application/json",
    "views.json": "application/json",
    "report.html": "text/html",
    "labels.png": "image/png",
    "overlay.png": "image/png",
    "cut-outs.zip": "application/zip",
}
_SHOWN = ("views.json", "report.html")  # by the page itself; the other files are downloads
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
_MOST_ASKED = 50  # jobs that are asked for at once
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
    names = ("applications", "requests", "routing", "responses", "concurrency", "exceptions")
    modules = [require(f"starlette.{name}", "serve", "softcut serve") for name in names]
    applications, requests, routing, responses, threads, exceptions = modules
    require("python_multipart", "serve", "softcut serve")

    def refused(sentence: str, code: int = 400) -> Any:
        return responses.JSONResponse({"error": sentence}, code)

    gone = "this job does not exist (any more); start it again."

    async def index(request: Any) -> Any:
        page = page_environment().get_template("serve.html.j2")
        return responses.HTMLResponse(
            page.render(
                accepted=",".join((*GRAPHS, ".gz", *PICTURES)),
                features=",".join(FEATURES),
                megabytes=max_upload // 10**6,
                fields=list(reading_fields().values()),
                examples=[example for example in examples() if _fits(example.file, max_upload)],
            )
        )

    async def static(request: Any) -> Any:
        name = request.path_params["name"]
        if name not in _STATIC:
            return refused("there is no such file.", 404)
        return responses.Response(template_text(name), media_type=_STATIC[name])

    async def example(request: Any) -> Any:
        content = example_file(request.path_params["name"])
        if content is None:
            return refused("there is no such example.", 404)
        return responses.Response(content, media_type="application/octet-stream")

    async def create(request: Any) -> Any:
        folder: Path | None = None
        try:
            jobs.check_free()
            limited = requests.Request(request.scope, _limited(request.receive, max_upload))
            async with limited.form(max_files=2, max_fields=most_fields()) as form:
                folder = jobs.new_folder()
                order = await threads.run_in_threadpool(read_form, form, folder)
                about = {"file": order["file"], "clusters": str(form.get("k", "")).strip() or "auto"}
            limits = {"n_init": n_init, "max_bytes": 4 * max_upload}
            job = await threads.run_in_threadpool(jobs.start, folder, about, **order, **limits)
            folder = None
        except SoftcutError as error:
            return refused(worded(error.sentence), 413 if isinstance(error, _TooLarge) else 400)
        except requests.ClientDisconnect:  # nobody is there to be told
            return refused("the upload broke off.")
        except exceptions.HTTPException as error:
            return refused(f"the form cannot be read: {error.detail.rstrip('.')}; reload the page.")
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
        known = _told(job)  # read first: events that come meanwhile are sent next time
        more = {"events": job.events[first:], "error": job.error, "field": job.argument, "result": job.result}
        return responses.JSONResponse({**known, **more})

    async def known(request: Any) -> Any:
        asked = request.query_params.getlist("id")[:_MOST_ASKED]
        alive = [job for job in map(jobs.get, asked) if job is not None]
        return responses.JSONResponse({"jobs": [_told(job) for job in alive]})

    async def file(request: Any) -> Any:
        job, name = jobs.get(request.path_params["id"]), request.path_params["name"]
        if job is None or job.state != "done" or name not in _TYPES or not (job.folder / name).is_file():
            return refused(gone, 404)
        headers = {"content-security-policy": _REPORT_POLICY} if name == "report.html" else {}
        if name not in _SHOWN:
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
            route("/examples/{name}", example),
            route("/jobs", create, methods=["POST"]),
            route("/jobs", known),
            route("/jobs/{id}", show),
            route("/jobs/{id}", cancel, methods=["DELETE"]),
            route("/jobs/{id}/{name}", file),
        ],
    )
    return _Guard(app, hosts)


def _told(job: Job) -> dict[str, Any]:
    """What a list of jobs says about one."""
    return {"id": job.id, "state": job.state, **job.about}


def _fits(name: str, max_upload: int) -> bool:
    """Whether an example may be sent."""
    return len(example_file(name) or b"") < max_upload


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
