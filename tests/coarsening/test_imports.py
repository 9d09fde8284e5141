"""Coarsening runs where PyTorch is not installed or not wanted."""

from __future__ import annotations

import subprocess
import sys


def test_coarsening_does_not_load_torch():
    code = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from softcut.coarsening import Graclus, NodeDecimation, hierarchy\n"
        "path = sp.csr_array(np.diag([1.0] * 3, 1) + np.diag([1.0] * 3, -1))\n"
        "hierarchy(Graclus(), path, 2), hierarchy(NodeDecimation(), path, 2)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
