"""The uniform assignment of MinCutPool: the second-order formulas, and the measured smoothness of features."""

import json

import numpy as np
import pytest
import scipy.linalg
import torch

from softcut import Graph
from softcut.graph import from_graphs
from softcut.learning import ClassifierSettings
from softcut.learning.experiment import build_models, cluster_sizes
from softcut.nn import mincut_pool
from softcut.ops.uniform import largest_quotient, uniform_ortho
from tools import uniform


def _random_graph(seed: int, n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Edges of a connected graph and its normalised adjacency."""
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) < 0.3, 1)
    a[np.arange(n - 1), np.arange(1, n)] = True
    a = (a | a.T).astype(float)
    scale = 1 / np.sqrt(a.sum(1))
    return np.array(np.nonzero(np.triu(a))), scale[:, None] * a * scale


@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_both_losses_near_the_uniform_assignment(k: int, seed: int) -> None:
    """Second differences of the pooler's own losses equal the formulas of the module, for any change E."""
    edges, a = _random_graph(seed)
    n = len(a)
    rng = np.random.default_rng(seed + 10)
    e = rng.normal(size=(n, k))
    e -= e.mean(1, keepdims=True)  # assignments keep summing to 1
    step = 1e-4 / k

    def losses(t: float) -> dict[str, float]:
        s = torch.from_numpy(1 / k + t * e)
        index = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1).copy())
        out = mincut_pool(torch.zeros(n, 1, dtype=torch.float64), index, s)
        return {name: value.item() for name, value in out.losses.items()}

    middle, plus, minus = losses(0), losses(step), losses(-step)
    curve = {name: (plus[name] + minus[name] - 2 * middle[name]) / (2 * step**2) for name in middle}
    slope = {name: (plus[name] - minus[name]) / (2 * step) for name in middle}
    degree = a.sum(1)
    laplacian = np.diag(degree) - a
    u = uniform_ortho(k)
    spread = ((e - e.mean(0)) ** 2).sum()
    cut = np.trace(e.T @ laplacian @ e) / degree.sum()
    assert middle["cut"] == pytest.approx(-1)
    assert middle["ortho"] == pytest.approx(u)
    assert slope["cut"] == pytest.approx(0, abs=1e-6)
    assert slope["ortho"] == pytest.approx(0, abs=1e-6)
    assert curve["cut"] == pytest.approx(k * cut, rel=1e-3)
    assert curve["ortho"] == pytest.approx(-k / n * spread / (u * np.sqrt(k)), rel=1e-3)
    # The weight at which the sum of both turns is the one that the module names.
    q = cut / (spread / n)
    weight = q / largest_quotient(k)
    assert curve["cut"] + weight * curve["ortho"] == pytest.approx(0, abs=1e-3 * curve["cut"])


def test_the_smallest_quotient_is_that_of_the_hidden_features() -> None:
    """By a plain eigenvalue problem on the features of a single model."""
    edges, a = _random_graph(3)
    x = np.random.default_rng(4).normal(size=(len(a), 6))
    graphs = from_graphs([Graph.from_edges(edges, x=x)] * 20, y=[0, 1] * 10)
    smallest = uniform.smallest_quotient(graphs, [7])
    (model,) = build_models(6, 2, "mincut", cluster_sizes(graphs), [7], ClassifierSettings())
    first, mlp = model.convs[0], model.pools[0].mlp.layers[0]
    weights = (first.neighbours.weight, first.itself.weight, mlp.weight)
    w_m, w_s, w_1 = (p.detach().double().numpy() for p in weights)
    hidden = np.maximum(np.maximum(a @ x @ w_m.T + x @ w_s.T, 0) @ w_1.T, 0)
    degree = a.sum(1)
    cut = hidden.T @ (np.diag(degree) - a) @ hidden / degree.sum()
    centred = hidden - hidden.mean(0)
    spread = centred.T @ centred / len(a)
    variance, directions = np.linalg.eigh(spread)
    kept = directions[:, variance > 1e-3 * variance.max()]
    expected = scipy.linalg.eigh(kept.T @ cut @ kept, kept.T @ spread @ kept, eigvals_only=True)[0]
    assert smallest == pytest.approx([expected], rel=1e-4)


def test_nodes_that_a_layer_cannot_tell_apart_share_a_cluster() -> None:
    star = Graph.from_edges([[0, 0, 0, 0], [1, 2, 3, 4]], x=[[1.0], [2.0], [2.0], [2.0], [3.0]])
    path = Graph.from_edges(
        [[0, 1, 2], [1, 2, 3]], x=[[1.0]] * 4
    )  # its ends are alike, and the nodes between
    graphs = from_graphs([star, path])
    assert uniform.most_clusters(graphs, 9) == (3 + 2) / 2
    assert uniform.most_clusters(graphs, 2) == 2


def test_the_command_writes_its_table(tmp_path, capsys, monkeypatch) -> None:
    edges, _ = _random_graph(5)
    x = np.random.default_rng(6).normal(size=(12, 3))
    made = from_graphs([Graph.from_edges(edges, x=x)] * 20, y=[0, 1] * 10, name="DD")
    monkeypatch.setattr(uniform, "load_graphs", lambda name, root: made)
    uniform.main(["--dataset", "DD", "--out", str(tmp_path), "--device", "cpu", "--runs", "2"])
    (cell,) = json.loads((tmp_path / uniform.FILE).read_text())
    assert (cell["dataset"], cell["k"], cell["n"]) == ("DD", 6, 2)
    assert cell["most_clusters"] == 6.0
    assert cell["ortho_weight"] == pytest.approx(cell["smallest"] / cell["largest"], abs=0.01)
    assert f"| DD | 6 | {cell['smallest']:.3f} ± " in capsys.readouterr().out
