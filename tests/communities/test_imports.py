"""What is loaded when: no PyTorch for communities, no numba before it is needed."""

import importlib
import subprocess
import sys

import pytest

from softcut.errors import DependencyError


def loaded(code):
    """Modules that a new process has loaded after some lines."""
    lines = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", lines], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_communities_need_no_pytorch():
    found = loaded(
        "import networkx as nx\nimport softcut.communities\nfrom softcut.communities.network import Network\n"
        "from softcut.communities.engine import communities\nfrom softcut.communities.scales import Search\n"
        "from softcut.communities.random_graphs import rewired\n"
        "network = Network(nx.to_scipy_sparse_array(nx.karate_club_graph(), dtype=float))\n"
        "search = Search(network, lambda seed: rewired(network, seed))\n"
        "assert communities(network).max() == 3 and len(search.levels(search.scales())[0]) > 1\n"
        "assert search.compared(6).deviations > 4\n"
        "assert softcut.communities.find_communities(nx.karate_club_graph()).max() == 3"
    )
    assert "numba" in found and "torch" not in found


def test_numba_is_loaded_by_clusters_of_edges_only():
    assert not {"numba", "torch"} & loaded("import softcut, softcut.communities, softcut.communities.tree")
    assert "numba" not in loaded(
        "import softcut as sc, numpy as np\nfrom softcut.datasets import attributed_communities\n"
        "graph = attributed_communities(60, 2, n_features=20, seed=0)\n"
        "sc.MinCutClustering(2, n_init=2, max_iter=3).fit(graph)"
    )


def test_without_numba_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)  # an import of it fails
    monkeypatch.delitem(sys.modules, "softcut.communities.compiled", raising=False)
    with pytest.raises(
        DependencyError, match="clustering by edges needs the package 'numba': run pip install"
    ) as caught:
        importlib.import_module("softcut.communities.compiled")
    assert "\n" not in str(caught.value)
