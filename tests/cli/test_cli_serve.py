"""``softcut serve``."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys

import pytest

uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")


def test_a_port_in_use_is_one_sentence(run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        code, _, err = run("serve", "--port", other.getsockname()[1])
    assert code == 2
    assert "choose another" in err and err.count("\n") == 1


def test_it_listens_here_only_and_ends_cleanly(run, monkeypatch, tmp_path):
    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = {}

    def serve(server, sockets):
        (listener,) = sockets
        seen["address"] = listener.getsockname()
        seen["hosts"] = server.config.app.hosts
        seen["folders"] = [p.name for p in tmp_path.iterdir()]
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    code, out, err = run("serve", "--port", 0)
    host, port = seen["address"]
    assert code == 0, err
    assert host == "127.0.0.1"
    assert seen["hosts"] == {f"127.0.0.1:{port}", f"localhost:{port}"}
    assert f"http://127.0.0.1:{port} " in out and "Ended." in out
    assert seen["folders"] and not list(tmp_path.iterdir())  # removed with what was uploaded


@pytest.mark.slow
def test_a_server_of_its_own(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "softcut", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        assert httpx.get(address, timeout=60).status_code == 200
        assert httpx.get(address, headers={"host": "evil.example"}, timeout=60).status_code == 403
        assert list(tmp_path.glob("softcut-serve-*"))
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == "Ended.\n"
    assert not list(tmp_path.glob("softcut-serve-*"))
