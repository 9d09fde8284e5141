"""Memory of a process that computes on a CPU."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# 48 tensors of 1 MiB are written and freed again and again: how many pages does the system give each time?
PAGES = """
import resource, sys
import torch
from softcut.device import threads_for


def write():
    tensors = [torch.ones(1 << 18) for _ in range(48)]


def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


with threads_for(1000, torch.device("cpu")):
    write()  # the first time, all pages are new
    write()
    before = pages()
    for _ in range(5):
        write()
    print((pages() - before) / 5)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps freed memory")
def test_memory_that_small_fits_free_is_kept() -> None:
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100  # of 12,288; some 2,500 where glibc decides
