"""The parts of training on their own: first weights, inputs, stopping, threads, records, at their boundaries."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.errors import FileFormatError, ParameterError
from softcut.ops import CSR
from softcut.paper.runs import Records, cells, merge_cells, run_id, settings_hash
from softcut.training import (
    Checkpoint,
    ConvInput,
    DenseInput,
    Loop,
    LoopSettings,
    Patience,
    Plateau,
    ReplicaNet,
    Task,
    TrainSettings,
    replica_seeds,
    train,
)
from softcut.training import mincut as module
from softcut.training.inputs import _pattern
from softcut.training.net import _glorot
from softcut.training.stopping import BestValues, has_converged

RING = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])


def ring(dtype=torch.float64) -> CSR:
    return CSR.from_edge_index(RING, torch.ones(8, dtype=dtype), num_nodes=4)


# ------------------------------------------------------------------------------------------------ networks


def test_seeds_are_words_of_a_seed_sequence():
    assert replica_seeds(7, 3) == np.random.SeedSequence(7).generate_state(3, np.uint32).tolist()


def test_glorot_uniform():
    uniform = torch.rand(3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = _glorot(3, 5, torch.Generator().manual_seed(1))
    torch.testing.assert_close(found, (2 * uniform - 1) * math.sqrt(6 / 8))


@pytest.mark.parametrize("terms", [1, 2])
def test_first_weights(terms):
    net = ReplicaNet(5, 3, seeds=[4, 9], hidden=2, terms=terms, dtype=torch.float64)
    for r, seed in enumerate((4, 9)):
        generator = torch.Generator().manual_seed(seed)
        for kernel in net.first:
            normal = torch.randn(2, 5, generator=generator, dtype=torch.float64)
            torch.testing.assert_close(kernel[r], normal * math.sqrt(2 / 5))
        torch.testing.assert_close(net.second[r], _glorot(3, 2, generator))
    assert net.bias.shape == (2, 2)
    assert net.second_bias.shape == (2, 3)
    assert net.bias.abs().sum() == net.second_bias.abs().sum() == 0
    assert ReplicaNet(5, 3, seeds=[0]).hidden == 16
    assert ReplicaNet(5, 3, seeds=[0]).terms == 1


def test_one_linear_layer():
    net = ReplicaNet(5, 3, seeds=[4], hidden=0, dtype=torch.float64)
    torch.testing.assert_close(net.first[0][0], _glorot(3, 5, torch.Generator().manual_seed(4)))
    assert net.bias.shape == (1, 3)
    z = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.bias += 0.3
    torch.testing.assert_close(net(DenseInput(z))[0], (z @ net.first[0][0].T + 0.3).T)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_divides(temperature):
    z = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net = ReplicaNet(5, 3, seeds=[4, 5], dtype=torch.float64)
    h = torch.nn.functional.elu(torch.einsum("rhf,nf->rhn", net.first[0], z) + net.bias[..., None])
    logits = torch.einsum("rkh,rhn->rkn", net.second, h) + net.second_bias[..., None]
    wanted = torch.softmax(logits / temperature, 1).permute(2, 0, 1)
    torch.testing.assert_close(net.soft(DenseInput(z), temperature), wanted)
    found = net.assign(DenseInput(z), temperature)
    torch.testing.assert_close(found, wanted)
    assert not found.requires_grad
    assert net.soft(DenseInput(z)).requires_grad


def test_scales_and_what_is_kept():
    net = ReplicaNet(5, 3, seeds=[1, 2, 3], scales=[0, 1, 1])
    kept = net.keep([0, 2])
    assert kept.scales == [0, 1]
    assert torch.equal(kept.second, net.second[[0, 2]])
    assert ReplicaNet(5, 3, seeds=[1, 2]).scales == [0, 0]
    for bad in ([1, 0], [0], [0, 1, 1]):
        with pytest.raises(ParameterError, match="scales must name one scale for each replica"):
            ReplicaNet(5, 3, seeds=[1, 2], scales=bad)


def test_replicas_read_the_features_of_their_scale():
    z = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
    kernel = torch.randn(4, 2, 5, generator=torch.Generator().manual_seed(1))
    found = DenseInput(z)([kernel], [0, 0, 2, 2])
    for r, scale in enumerate([0, 0, 2, 2]):
        torch.testing.assert_close(found[r], kernel[r] @ z[scale].T)


# -------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(
    ("nonzero", "f", "columns", "kind"),
    [
        # 4 rows, 8 entries of A; a sparse multiplication costs 4 dense ones.
        (2, 40, 1, "sparse"),  # 4 (2 t + 8) against 160 t + 32
        (160, 40, 1, "dense"),
        (160, 40, 10, "constant"),  # A~ X is kept where F <= 4 columns
        (160, 40, 9, "dense"),
        (1, 8, 16, None),
    ],
)
def test_the_cheapest_way_is_taken(skip, nonzero, f, columns, kind):
    x = np.zeros(4 * f)
    x[:nonzero] = np.arange(1, nonzero + 1)
    x = x.reshape(4, f)
    layer = ConvInput(ring(), sp.csr_array(x), columns=columns, skip=skip, dtype=torch.float64)
    terms = 2 if skip else 1
    costs = {"sparse": 4 * (terms * nonzero + 8), "dense": terms * 4 * f + 32, "constant": terms * 4 * f}
    if f > 4 * columns:
        del costs["constant"]
    assert layer.kind == min(costs, key=costs.get)
    assert kind in (None, layer.kind)
    assert layer.terms == terms
    weights = [
        torch.randn(2, 3, f, dtype=torch.float64, generator=torch.Generator().manual_seed(i))
        for i in range(terms)
    ]
    a = ring().normalise().to_dense()
    dense = torch.from_numpy(x)
    wanted = torch.einsum("rhf,nf->rhn", weights[0], a @ dense)
    if skip:
        wanted = wanted + torch.einsum("rhf,nf->rhn", weights[1], dense)
    torch.testing.assert_close(layer(weights, [0, 0]), wanted)
    plain = ConvInput(ring(), x, columns=columns, skip=skip, dtype=torch.float64)
    assert plain.kind == layer.kind


def test_small_matrices_have_small_indices():
    pattern, values = _pattern(sp.csr_array(np.eye(3)), torch.float32, "cpu")
    assert pattern.col.dtype == pattern.rowptr.dtype == torch.int32
    assert values.dtype == torch.float32


# ------------------------------------------------------------------------------------------------ stopping


def test_converging_is_improving_by_less_than_the_tolerance():
    losses = torch.tensor([[4.0, 4.0], [3.0, 3.0], [2.75, 2.5]])
    assert has_converged(losses, Plateau(0.5, 1)).tolist() == [True, False]
    assert has_converged(losses, Plateau(0.25, 1)).tolist() == [False, False]
    assert has_converged(losses, Plateau(2.0, 2)).tolist() == [True, True]
    assert has_converged(losses, Plateau(9.0, 3)).tolist() == [False, False], "too early"
    assert has_converged(torch.cat([losses, losses[:1]]), Plateau(9.0, 3)).tolist() == [True, True]
    assert (Plateau().tolerance, Plateau().patience) == (1e-4, 50)
    with pytest.raises(ParameterError, match="patience must be positive, got 0"):
        Plateau(patience=0)


@pytest.mark.parametrize(
    "record", [Plateau(), Patience(3), TrainSettings(), LoopSettings(5, 0.1, {"loss": 1.0})]
)
def test_checked_settings_cannot_be_changed_behind_the_checks(record):
    for field in dataclasses.fields(record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, field.name, -1)


def test_the_best_values_of_each_replica():
    best = BestValues(Patience(patience=2, tolerance=0.5), 2, 10, torch.device("cpu"))
    for position, losses in enumerate([[3.0, 3.0], [2.5, 2.0], [2.75, 1.75], [2.0, 1.6], [0.0, 0.0]]):
        values = {"x": torch.full((2, 1), float(position))}
        best.look(torch.tensor(losses), values, torch.tensor([0, 1]), torch.tensor(position))
    # 2.5 is not better than 3 by more than 0.5; two looks without improvement end the replica.
    assert best.tensors["loss"].tolist() == [3.0, 2.0]
    assert best.tensors["at"].tolist() == [0, 1]
    assert best.tensors["ran"].tolist() == [2, 3]
    assert best.tensors["running"].tolist() == [False, False]
    assert best.kept["x"].flatten().tolist() == [0, 1]


class Quadratic(Task):
    """(p - target)^2, with a validation that returns two losses."""

    validates = True

    def __init__(self) -> None:
        self.parameters = {"p": torch.zeros(2, dtype=torch.float64, requires_grad=True)}

    def step(self):
        return {"loss": (self.parameters["p"] - torch.tensor([1.0, 2.0])).square()}

    def validate(self):
        p = self.parameters["p"].detach()
        return {"first": p.clone(), "second": -p}


@pytest.mark.parametrize("watch", [None, "first", "second"])
def test_the_watched_loss_of_a_validation(watch):
    task = Quadratic()
    stop = Patience(patience=50, watch=watch, restore=False)
    result = Loop(task, LoopSettings(20, 0.01, check_every=5, stop=stop)).run()
    assert result.validated_at.tolist() == [5, 10, 15, 20]
    first = result.validation["first"]
    np.testing.assert_allclose(first, -result.validation["second"])
    assert (np.diff(first, axis=0) > 0).all()
    if watch == "second":
        np.testing.assert_allclose(result.best_loss, -first[-1])
        assert result.best_iteration.tolist() == [20, 20]
    else:
        np.testing.assert_allclose(result.best_loss, first[0])
        assert result.best_iteration.tolist() == [5, 5]
    with pytest.raises(ParameterError, match="watch is 'third', but validate returns first, second"):
        Loop(Quadratic(), LoopSettings(20, 0.01, stop=Patience(5, watch="third"))).run()


def test_the_last_iteration_is_checked_too():
    seen = []
    Loop(Quadratic(), LoopSettings(12, 0.01, check_every=5)).run(
        lambda progress: seen.append(progress.iteration)
    )
    assert seen == [5, 10, 12]


def test_the_step_size_falls_along_half_a_cosine():
    task = Quadratic()
    loop = Loop(task, LoopSettings(10, 0.5, decay=True, check_every=1))
    rates = []
    loop.run(lambda progress: rates.append(float(loop.optimiser.rate)))
    np.testing.assert_allclose(
        rates, [0.25 * (1 + math.cos(math.pi * (i + 1) / 10)) for i in range(10)], atol=1e-12
    )


def test_the_time_limit_leaves_one_iteration():
    result = Loop(Quadratic(), LoopSettings(50, 0.01)).run(time_limit=0.0)
    assert result.iterations == 1
    assert result.timed_out
    assert not result.converged
    assert not result.interrupted
    assert result.history["loss"].shape == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"iterations": 0}, "iterations must be positive"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"check_every": 0}, "check_every must be positive"),
        ({"warm_up": -1}, "warm_up must not be negative"),
        ({"minimise": {}}, "minimise must name at least one loss"),
        ({"drop_finished": True}, "drop_finished needs"),
        ({"drop_finished": True, "stop": Patience(3, restore=False)}, "drop_finished needs"),
        ({"drop_finished": True, "stop": Plateau()}, "drop_finished needs"),
    ],
)
def test_settings_of_the_loop(arguments, words):
    with pytest.raises(ParameterError, match=words):
        LoopSettings(**{"iterations": 5, "lr": 0.1, **arguments})
    good = LoopSettings(1, 1e-9, warm_up=0, check_every=1, drop_finished=True, stop=Patience(3))
    assert (good.decay, good.minimise) == (False, {"loss": 1.0})
    assert LoopSettings(1, 0.1).check_every == 25


def test_settings_of_the_training():
    usual = TrainSettings()
    assert (usual.iterations, usual.lr, usual.temperature, usual.objective) == (700, 2e-3, 1.0, "mincut")
    assert (usual.ortho_weight, usual.start, usual.tolerance) == (1.0, 40, 1e-4)
    assert (usual.patience, usual.check_every) == (50, 25)
    TrainSettings(ortho_weight=0.0, start=0, patience=1, check_every=1, iterations=1)
    for name in ("iterations", "lr", "temperature", "patience", "check_every"):
        for bad in (0, -1):
            with pytest.raises(ParameterError, match=f"{name} must be positive, got {bad}"):
                TrainSettings(**{name: bad})
    for name in ("ortho_weight", "start"):
        with pytest.raises(ParameterError, match=f"{name} must not be negative, got -1"):
            TrainSettings(**{name: -1})


# ------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize(("limit", "inside"), [(4 * 2 * 6 + 1, 1), (4 * 2 * 6, 2)])
def test_small_work_takes_one_thread(monkeypatch, limit, inside):
    monkeypatch.setattr(module, "_ONE_THREAD", limit)
    before = torch.get_num_threads()
    seen = []

    def loss(op, s):
        seen.append(torch.get_num_threads())
        return s.sum((0, 2)), s.sum((0, 2))

    torch.set_num_threads(2)
    try:
        net = ReplicaNet(4, 2, seeds=[0, 1], hidden=4)
        train(net, DenseInput(torch.eye(4)), ring(torch.float32), TrainSettings(iterations=2), loss=loss)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [inside] * 2
    monkeypatch.undo()
    assert module._ONE_THREAD == 2**18


# ------------------------------------------------------------------------------------------------- records


def test_runs_are_known_by_a_digest():
    text = json.dumps({"a": 1, "b": 2}, sort_keys=True)
    assert settings_hash({"b": 2, "a": 1}) == hashlib.sha256(text.encode()).hexdigest()[:12]
    whole = {"dataset": "cora", "method": "sc", "seed": 3, "settings": {"k": 2}}
    assert run_id("cora", "sc", 3, {"k": 2}) == settings_hash(whole)


def run(seed: int, value: float, dataset: str = "cora", method: str = "sc") -> dict:
    return {"dataset": dataset, "method": method, "seed": seed, "settings": {}, "nmi": value, "seconds": 1.234,
            "device": "CPU", "commit": "aaa"}  # fmt: skip


def test_records_are_sorted_and_replaced(tmp_path):
    records = Records(tmp_path / "runs.json")
    records.add([run(1, 0.1), run(0, 0.2)])
    records.add([run(0, 0.3, method="a"), run(0, 0.4, dataset="b"), run(1, 0.5)])
    assert [(r["dataset"], r["method"], r["seed"], r["nmi"]) for r in Records(records.path).runs] == [
        ("b", "sc", 0, 0.4), ("cora", "a", 0, 0.3), ("cora", "sc", 0, 0.2), ("cora", "sc", 1, 0.5),
    ]  # fmt: skip
    assert records.missing("cora", "sc", range(3), {}) == [2]
    assert [r["nmi"] for r in records.of("cora", "sc", [1, 2, 0], {})] == [0.5, 0.2]
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(FileFormatError, match="is not a list of runs"):
        Records(tmp_path / "other.json")


def test_cells_of_runs():
    runs = [run(0, 0.12345678), run(1, 0.2)]
    paper = {("cora", "sc", "nmi"): (0.5, 0.1)}
    (cell,) = cells(runs, ["nmi"], paper, "make")
    values = [0.12345678, 0.2]
    assert (cell["mean"], cell["std"], cell["n"]) == (round(np.mean(values), 4), round(np.std(values), 4), 2)
    assert (cell["paper_mean"], cell["paper_std"], cell["seconds"]) == (0.5, 0.1, 2.47)
    assert (cell["device"], cell["commit"], cell["command"]) == ("CPU", "aaa", "make")
    (exact,) = cells(runs, ["nmi"], {}, "make", digits=None)
    assert exact["mean"] == pytest.approx(np.mean(values), abs=1e-15)
    assert exact["std"] == pytest.approx(np.std(values), abs=1e-15)
    assert exact["paper_mean"] is None
    assert cells([], ["nmi"], {}, "make") == []


def test_merged_cells_are_sorted(tmp_path):
    def cell(dataset, method, metric, mean):
        return {"dataset": dataset, "method": method, "metric": metric, "mean": mean}

    path = tmp_path / "table.json"
    merge_cells(
        path,
        [
            cell("b", "x", "nmi", 1),
            cell("a", "y", "nmi", 2),
            cell("a", "x", "nmi", 3),
            cell("a", "x", "acc", 4),
        ],
    )
    found = merge_cells(path, [cell("a", "x", "nmi", 5)])
    assert [c["mean"] for c in found] == [4, 5, 2, 1]
    assert json.loads(path.read_text()) == found


def test_checkpoints_of_another_training(tmp_path):
    point = Checkpoint(tmp_path / "c.pt", {"seeds": [0, 1]})
    assert point.read({}, torch.device("cpu")) is None
    point.write({"value": torch.arange(3)}, {"lr": 0.1})
    assert point.read({"lr": 0.1}, torch.device("cpu"))["value"].tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match=r"was written with lr = 0.1, not 0.2"):
        point.read({"lr": 0.2}, torch.device("cpu"))
    with pytest.raises(ParameterError, match=r"written with seeds = \[0, 1\], not \[0\]"):
        Checkpoint(point.path, {"seeds": [0]}).read({"lr": 0.1}, torch.device("cpu"))
    with pytest.raises(ParameterError, match=r"was written with more = None, not 1"):
        point.read({"lr": 0.1, "more": 1}, torch.device("cpu"))
