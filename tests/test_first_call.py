"""What is imported on the way to a first answer: everything else makes people wait."""

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import version

import pytest

# Takes seconds, and nothing needs it for labels.
HEAVY = {
    *("torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "sympy", "triton", "torch_geometric"),
    *("sklearn.metrics", "sklearn.cluster", "sklearn.decomposition", "sklearn.neighbors", "scipy.stats"),
    *("pandas", "polars", "matplotlib", "networkx", "igraph", "numba", "jinja2", "typer"),
}
LATER = {"numpy.f2py", "narwhals", "scipy.special"}  # for other kinds of features, and pictures
if version("scikit-learn").startswith("1.6."):  # takes names from these while it is imported
    HEAVY.remove("pandas")
    LATER.remove("scipy.special")
COMMAND = """
from softcut.cli import main
try:
    main()
except SystemExit as end:
    print(f"\\nexit {end.code}", end="")
"""
FIT = """
from softcut.datasets import attributed_communities
graph = attributed_communities(60, 3, seed=0)
graph = softcut.Graph.from_scipy(graph.adjacency, x=graph.x if sys.argv[1] else None)
print(len(softcut.GraphClustering(3, random_state=0, device="cpu").fit(graph).labels_))
"""


def imported_by(code: str, *words: str) -> tuple[str, set[str]]:
    """What a piece of code prints in a process of its own, and the modules that are loaded at its end."""
    script = f"import sys\n{code}\nimport json; print()\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    printed, _, names = done.stdout.strip().rpartition("\n")
    return printed.strip(), set(json.loads(names))


@cache
def in_torch() -> set[str]:
    return imported_by("import torch")[1]


def test_importing_an_estimator_loads_what_a_fit_needs():
    _, loaded = imported_by(
        "import torch, softcut; softcut.Graph, softcut.read_graph, softcut.GraphClustering"
    )
    assert (loaded - in_torch()) & (HEAVY | LATER) == set()
    assert "sklearn.base" in loaded  # the estimators inherit from scikit-learn's


def test_nothing_looks_for_garbage_among_what_is_imported():
    code = (
        "import gc, softcut\n"
        "seen = []\n"
        "gc.callbacks.append(lambda *_: seen.append('torch' in sys.modules and 'sklearn.base' not in sys.modules))\n"
        "softcut.GraphClustering\n"
        "print(len(seen), gc.get_freeze_count())\n"
        "gc.collect()\n"
        "print(any(seen), len(seen) > 0, gc.isenabled())\n"
        "gc.disable()\n"
        "softcut.GraphClassification\n"
        "print(gc.isenabled())\n"
    )
    assert imported_by(code)[0] == "0 0\nFalse True True\nFalse"


@pytest.mark.parametrize("features", ["x", ""])
def test_a_fit_loads_nothing_heavy(features):
    printed, loaded = imported_by(f"import softcut\n{FIT}", features)
    assert printed == "60"
    # Clusters of the edges are compiled, also those that networks begin from.
    assert (loaded - in_torch()) & (HEAVY | LATER) <= {"numba", "scipy.special"}


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["cluster", "--help"], 0), (["cluster", "g.csv", "--wrong"], 2)]
)
def test_help_and_wrong_options_load_no_arrays(words, code):
    printed, loaded = imported_by(COMMAND, *words)
    assert printed.endswith(f"exit {code}")
    assert loaded & {"numpy", "scipy", "torch", "sklearn", "pandas", "matplotlib"} == set()


@pytest.mark.parametrize("picture", [True, False])
def test_cluster_loads_what_it_writes_with(tmp_path, picture):
    file = tmp_path / "g.csv"
    file.write_text("a,b\n" + "".join(f"{i},{(i + step) % 30}\n" for i in range(30) for step in (1, 2)))
    words = ["cluster", str(file), "-k", "2", "--out", str(tmp_path / "out"), "--device", "cpu"]
    printed, loaded = imported_by(COMMAND, *words, *([] if picture else ["--no-plot"]))
    assert printed.endswith("exit 0")
    allowed = {"typer", "numba"} | ({"matplotlib"} if picture else set())
    assert (loaded - in_torch()) & HEAVY <= allowed


def test_what_scikit_learn_loads_for_later_is_there_when_it_is_used():
    """scikit-learn's base class loads scipy.stats, pandas and more, which wait until something is taken from them."""
    code = (
        "import softcut; softcut.GraphClustering\n"
        "import numpy as np, numpy.f2py, sklearn.utils.fixes as fixes, sklearn.utils._array_api as arrays\n"
        "assert callable(np.f2py.run_main) and np.f2py is sys.modules['numpy.f2py']\n"
        "assert arrays.special.expit(0.0) == 0.5\n"
        "import scipy.stats\n"
        "print(scipy.stats.norm.cdf(0), scipy.stats is sys.modules['scipy.stats'])\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "pandas = __import__('importlib').util.find_spec('pandas')\n"
        "if pandas is not None:\n"
        "    import pandas as pd\n"
        "    frame = pd.DataFrame({'a': [1.0, 3.0]})\n"
        "    made = StandardScaler().set_output(transform='pandas').fit_transform(frame)\n"
        "    assert type(made) is pd.DataFrame and made['a'].tolist() == [-1, 1]\n"
        "    assert fixes.pd.DataFrame is pd.DataFrame\n"
    )
    assert imported_by(code)[0] == "0.5 True"
