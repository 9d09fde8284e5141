"""The command line as a shell starts it: closed streams, names that are not UTF-8, files that cannot grow."""

import os
import subprocess
import sys

import pytest

SOFTCUT = [sys.executable, "-m", "softcut"]
QUICK = ["-k", "2", "--n-init", "2", "--max-iter", "5", "--no-plot"]
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from softcut.cli import main
main()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="streams and limits of POSIX")


def shell(words, streams="", **options):
    words = [os.fsencode(word) for word in words]
    command = [b"/bin/sh", b"-c", b'exec "$@" ' + streams.encode(), b"sh", *words]
    return subprocess.run(command, capture_output=True, timeout=120, **options)


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">&-"])
def test_closed_streams_lead_nowhere(tmp_path, ring, streams):
    done = shell([*SOFTCUT, "cluster", "ring.csv", *QUICK], streams, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"") and b"Traceback" not in done.stderr
    first = (tmp_path / "ring-clusters" / "labels.csv").read_text().splitlines()[0]
    assert first.startswith("node,cluster")  # what would have been printed went into no file


def test_a_closed_standard_input_has_no_graph(tmp_path):
    done = shell([*SOFTCUT, "cluster", "-", *QUICK], "<&-", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(b"softcut: ")
    assert done.stderr.count(b"\n") == 1 and not list(tmp_path.iterdir())


def test_a_full_standard_output_is_one_sentence(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    done = shell([*SOFTCUT, "datasets"], ">/dev/full", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, b"softcut: No space left on device.\n")


@pytest.mark.parametrize(
    "words", [[b"r\xff.csv"], ["ring.csv", "--out", b"r\xff"], ["ring.csv", "--model-out", b"\xff"]]
)
def test_names_that_are_not_utf_8_are_refused_before_the_fit(tmp_path, ring, words):
    done = shell([*SOFTCUT, "cluster", *words, *QUICK], cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.endswith(
        b"is not UTF-8; rename the file, or name another one.\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["ring.csv"]


@pytest.mark.parametrize("most", [100, 300, 700])
def test_a_file_that_cannot_grow_is_one_sentence_and_leaves_nothing(tmp_path, ring, most):
    words = [sys.executable, "-c", LIMITED, str(most), "cluster", "ring.csv", *QUICK]
    done = shell(words, cwd=tmp_path, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    sentence = done.stderr.decode().splitlines()[-1]
    assert done.returncode == 2 and b"Traceback" not in done.stderr, done.stderr
    assert "cannot be written: " in sentence and ("full" in sentence or "large" in sentence)
    assert [p.name for p in tmp_path.iterdir()] == ["ring.csv"]
