"""``softcut serve``."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from softcut.cli.console import out
from softcut.errors import ParameterError, require

__all__ = ["serve"]

_HOST = "127.0.0.1"


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8050,
    max_upload: Annotated[int, typer.Option(min=1, help="The most megabytes of an upload.")] = 50,
    max_jobs: Annotated[int, typer.Option(min=1, max=64, help="Jobs that may run at once.")] = 4,
    n_init: Annotated[int | None, typer.Option(min=1, help="Replicas of each fit.")] = None,
) -> None:
    """Open a local web page to try it: drop in a graph or a picture, see the clusters, download the labels.

    Only this machine can reach it. Ctrl-C ends it, its jobs and their files.
    """
    uvicorn = require("uvicorn", "serve", "softcut serve")
    require("starlette", "serve", "softcut serve")
    from softcut.serve.app import create_app
    from softcut.serve.jobs import Jobs

    with socket.socket() as listener, Jobs(most_running=max_jobs) as jobs:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
            listener.listen()
        except OSError as error:
            raise ParameterError(
                f"--port {port} cannot be used ({error.strerror}); choose another, or 0 for a free one."
            ) from error
        taken = listener.getsockname()[1]
        hosts = [f"{_HOST}:{taken}", f"localhost:{taken}"]
        app = create_app(jobs, hosts, max_upload * 1_000_000, n_init)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        out.print(f"softcut serves http://{_HOST}:{taken} (Ctrl-C ends it)", markup=False, soft_wrap=True)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            out.print("Ended.")
