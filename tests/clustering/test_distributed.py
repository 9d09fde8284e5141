"""Distributed training: any division of a graph gives the training of the whole graph."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from thread_group import ThreadGroup, in_parts

from softcut import Graph
from softcut.clustering.encoder import Encoder
from softcut.clustering.features import rows_that_sum_to_one
from softcut.clustering.distributed import partition
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ParameterError, SoftcutError
from softcut.io.parts import Part, open_part
from softcut.metrics import evidence
from softcut.ops import CSR
from softcut.ops.halo import Halo, SharedRows
from softcut.training import ConvInput, DenseInput, ReplicaNet, TrainSettings, replica_seeds, train
from softcut.training.distributed import (
    DistributedSettings,
    JobError,
    JobGroup,
    ProcessError,
    TorchGroup,
    step_traffic,
    train_part,
)
from softcut.training.distributed.__main__ import main
from softcut.training.distributed.inputs import Sample, distances, kmeans_start, replica_scales
from softcut.training.distributed.results import all_labels
from softcut.training.distributed.selection import Judged, consensus

GRAPH = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)
QUICK = DistributedSettings(
    3,
    replicas=3,
    hops=(0, 2),
    iterations=25,
    tolerance=None,
    start=5,
    dtype="float64",
    hidden=8,
    select="evidence",
)
PAPER = DistributedSettings.paper(3, replicas=2, iterations=25, dtype="float64", lr=0.01)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folders of the parts of one graph, by preset and number."""
    folder = tmp_path_factory.mktemp("divided")
    made = {}
    for preset, count in (("default", 1), ("default", 3), ("paper", 3)):
        made[preset, count] = folder / f"{preset}-{count}"
        partition(GRAPH, count, made[preset, count], method="random", preset=preset)
    return made


def trained(folder, settings, count, **options):
    return in_parts(count, lambda group: train_part(folder, settings, group, **options))


def difference(net, other):
    ours, theirs = net.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


@pytest.fixture(scope="module")
def three(parts):
    return trained(parts["default", 3], QUICK, 3)


def test_three_parts_train_as_the_library_does_on_the_whole_graph(parts, three):
    group, part = JobGroup(), open_part(parts["default", 1], 0)
    sample = Sample(part, 120, group)
    op = Halo.from_part(part, group, dtype=torch.float64)
    z = distances(op, part.x, QUICK.hops, sample, torch.float64)
    scales = replica_scales(2, 3)
    start = kmeans_start(z, scales, 3, 120, sample, group, QUICK.seed)
    net = ReplicaNet(z.shape[2], 3, replica_seeds(0, 3), hidden=8, scales=scales, dtype=torch.float64)
    settings = TrainSettings(25, lr=QUICK.lr, ortho_weight=QUICK.ortho_weight, start=5, tolerance=None)
    whole = CSR.from_graph(GRAPH, dtype=torch.float64)
    result = train(net, DenseInput(z), whole, settings, start=start.labels, sizes=start.sizes)
    for found in three:
        assert difference(found.net, net) < 1e-9
        np.testing.assert_allclose(found.cut, result.cut[-1], atol=1e-9)
        np.testing.assert_allclose(found.ortho, result.ortho[-1], atol=1e-9)
    labels = net.assign(DenseInput(z)).argmax(-1)[:, three[0].best].numpy()
    for found in three:
        assert np.array_equal(found.labels, labels[found.part.nodes])


def test_the_networks_read_what_those_of_the_estimator_read(parts):
    group, part = JobGroup(), open_part(parts["default", 1], 0)
    op = Halo.from_part(part, group, dtype=torch.float64)
    z = distances(op, part.x, (0, 1, 2, 4, 8, 16), Sample(part, 120, group), torch.float32)
    torch.testing.assert_close(z, Encoder.fit(GRAPH)[1].z, atol=2e-5, rtol=1e-4)


def test_the_papers_network_is_trained_as_on_the_whole_graph(parts):
    whole = CSR.from_graph(GRAPH, dtype=torch.float64)
    x = rows_that_sum_to_one(GRAPH).toarray().astype(np.float32)  # as the parts store it
    inputs = ConvInput(whole, x.astype(np.float64), columns=1000, dtype=torch.float64)
    net = ReplicaNet(40, 3, replica_seeds(0, 2), terms=2, dtype=torch.float64)
    train(net, inputs, whole, TrainSettings(25, lr=0.01, tolerance=None))
    for found in trained(parts["paper", 3], PAPER, 3):
        assert difference(found.net, net) < 1e-9
        assert found.notes == []


def test_a_step_sends_what_the_model_says(three):
    for found in three:
        model = step_traffic(len(found.part.send), 3, found.net.in_channels, hidden=8, replicas=3, itemsize=8)
        assert found.step == model
        assert found.step.halo == 8 * 9 * len(found.part.send)


def test_evidence_is_that_of_the_whole_graph(three):
    labels, _ = whole_of(three)
    best = three[0].best
    assert three[0].evidence[best] == pytest.approx(evidence(GRAPH, labels), rel=1e-9)
    assert three[0].evidence_of_labels == three[0].evidence[best]
    assert three[0].evidence.argmax() == best
    assert three[0].clusters_used[best] == len(set(labels)) == 3


def test_the_best_replica_can_be_that_of_the_lowest_loss(parts):
    settings = DistributedSettings(**{**vars(QUICK), "select": "loss", "ortho_weight": 0.7})
    (found,) = trained(parts["default", 1], settings, 1)
    assert found.best == (found.cut + 0.7 * found.ortho).argmin()


def whole_of(results):
    labels, probability = np.zeros(120, dtype=int), np.zeros(120)
    for found in results:
        labels[found.part.nodes], probability[found.part.nodes] = found.labels, found.probability
    return labels, probability


def test_the_consensus_is_a_k_means_of_all_assignments(parts):
    settings = DistributedSettings(**{**vars(QUICK), "select": "consensus"})
    results = trained(parts["default", 3], settings, 3)
    labels, probability = whole_of(results)
    part, group = open_part(parts["default", 1], 0), JobGroup()
    op = Halo.from_part(part, group, dtype=torch.float64)
    sample = Sample(part, 120, group)
    z = distances(op, part.x, QUICK.hops, sample, torch.float64)
    s = results[0].net.assign(DenseInput(z)).numpy()  # [N, R, K]
    weight = results[0].evidence / results[0].evidence.max()
    rows = (s * weight[:, None]).reshape(120, 9)
    expected = KMeans(3, n_init=10, max_iter=30, random_state=0).fit_predict(rows)
    assert adjusted_rand_score(expected, labels) == 1
    assert results[0].evidence_of_labels == pytest.approx(evidence(GRAPH, labels), rel=1e-9)
    # P(label | cluster of a replica), weighted by the assignments: by hand.
    expect = np.zeros((120, 3))
    for r in range(3):
        joint = s[:, r].T @ np.eye(3)[labels]
        expect += s[:, r] @ (joint / joint.sum(1, keepdims=True)) / 3
    np.testing.assert_allclose(probability, expect[np.arange(120), labels], rtol=1e-9)


def test_replicas_that_lost_clusters_have_no_say_in_the_consensus():
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(60) % 3
    good = torch.nn.functional.one_hot(truth, 3).double()
    lost = torch.zeros(60, 3, dtype=torch.float64)
    lost[torch.arange(60), torch.randint(0, 2, (60,), generator=generator)] = 1.0
    part = Part(0, np.arange(60), *[np.zeros(0, dtype=int)] * 3, np.zeros((2, 1), dtype=int))
    group = JobGroup()
    found = Judged(np.array([1.0, 50.0]), np.array([3, 2]))
    labels, certain = consensus(
        torch.stack([good, lost], 1), found, SharedRows(60, group), Sample(part, 60, group), 0
    )
    assert adjusted_rand_score(truth, labels) == 1
    assert certain.min() == 1


def test_a_training_goes_on_from_its_checkpoint(parts, three, tmp_path):
    def stop(progress):
        raise SystemExit

    file = tmp_path / "checkpoint.pt"
    first = DistributedSettings(**{**vars(QUICK), "iterations": 30})
    with pytest.raises(SystemExit):
        trained(parts["default", 3], first, 3, checkpoint=file, checkpoint_every=0, callback=stop)
    assert torch.load(file)["done"] == 24
    resumed = trained(parts["default", 3], first, 3, checkpoint=file, checkpoint_every=0)
    undisturbed = trained(parts["default", 3], first, 3)
    for found, expected in zip(resumed, undisturbed, strict=True):
        assert difference(found.net, expected.net) == 0
        assert np.array_equal(found.labels, expected.labels)
        assert found.notes == [*expected.notes, "resumed from a checkpoint after 24 iterations."]
    with pytest.raises(JobError, match="was written with"):
        trained(parts["default", 3], QUICK, 3, checkpoint=file)


def test_samples_do_not_depend_on_the_division(parts):
    values = torch.arange(240.0).view(120, 2)

    def rows(folder, count):
        def work(group):
            part = open_part(folder, group.rank)
            return Sample(part, 120, group, count=30)(values[torch.from_numpy(np.array(part.nodes))])

        return in_parts(count, work)

    (whole,) = rows(parts["default", 1], 1)
    assert whole.shape == (30, 2)
    assert len(set(whole[:, 0].tolist())) == 30
    for found in rows(parts["default", 3], 3):
        assert torch.equal(found, whole)


def test_labels_are_put_together_in_the_order_of_the_graph(parts, three, monkeypatch):
    monkeypatch.setattr("softcut.training.distributed.results._AT_ONCE", 7)
    sizes = tuple(len(found.part.nodes) for found in three)
    whole = in_parts(3, lambda group: all_labels(three[group.rank], sizes, group))
    assert [len(labels) for labels, _ in whole] == [120, 0, 0]
    for found in three:
        assert np.array_equal(whole[0][0][found.part.nodes], found.labels)
        np.testing.assert_allclose(whole[0][1][found.part.nodes], found.probability, rtol=1e-6)


# -------------------------------------------------------------------------------------------- what goes wrong


def test_a_damaged_part_is_named_by_all(tmp_path):
    partition(GRAPH, 2, tmp_path / "parts")
    file = tmp_path / "parts" / "part-1.x.npy"
    file.write_bytes(file.read_bytes()[:-4] + b"1234")

    def sentence(group):
        with pytest.raises(JobError) as found:
            train_part(tmp_path / "parts", QUICK, group)
        return str(found.value)

    sentences = in_parts(2, sentence)
    assert sentences[0] == sentences[1]
    assert "part-1.x.npy is damaged" in sentences[0]


def test_what_cannot_be_trained_is_said_first(parts, tmp_path):
    with pytest.raises(JobError, match=r"has 3 parts, but 1 processes were started.*--nproc-per-node 3"):
        train_part(parts["default", 3], QUICK, JobGroup())
    with pytest.raises(JobError, match="k is 121, but the graph has 120 nodes"):
        train_part(parts["default", 1], DistributedSettings(121), JobGroup())
    with pytest.raises(JobError, match="holds no parts"):
        train_part(tmp_path, QUICK, JobGroup())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 0}, "k must be positive, got 0"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"start": -1}, "start must not be negative"),
        ({"hops": (2, 1)}, r"hops must be rising numbers from 0 on, got \(2, 1\)"),
        ({"hops": ()}, "hops must be rising"),
        ({"select": "nmi"}, "select must be one of consensus, evidence, loss"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64"),
    ],
)
def test_settings_out_of_range(change, said):
    with pytest.raises(ParameterError, match=said):
        DistributedSettings(**{"k": 3, **change})


def test_a_lost_process_is_one_sentence(monkeypatch):
    def lost(*arguments):
        raise RuntimeError("[/src/pair.cc:537] Read error [127.0.0.1]:160: Connection reset by peer. GLHF!")

    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lost)
    said = (
        r"process 1: another process of the job ended or cannot be reached \(Connection reset by peer\); run"
    )
    with pytest.raises(ProcessError, match=said):
        TorchGroup().all_reduce(torch.ones(1))


def test_batches_and_unknown_presets_are_not_divided(tmp_path):
    with pytest.raises(GraphError, match="graph is a batch of 2 graphs"):
        partition(Graph.batch([GRAPH, GRAPH]), 2, tmp_path / "parts")
    with pytest.raises(ParameterError, match="preset must be 'default' or 'paper'"):
        partition(GRAPH, 2, tmp_path / "parts", preset="best")


def test_a_graph_without_features_gets_positions(tmp_path):
    manifest = partition(GRAPH.with_features(None), 1, tmp_path / "parts")
    assert (manifest.columns, manifest.vocabulary) == (32, 0)
    (found,) = trained(tmp_path / "parts", QUICK, 1)
    assert found.evidence[found.best] == pytest.approx(evidence(GRAPH.with_features(None), found.labels))


# ------------------------------------------------------------------------------------------ the command


def named():
    first, second = GRAPH.edge_index()[0]
    names = [f"n{i}" for i in range(120)]
    return Graph.from_edges([first, second], num_nodes=120, x=GRAPH.x, node_names=names)


OPTIONS = [
    "-k",
    "3",
    "--replicas",
    "2",
    "--iterations",
    "5",
    "--start",
    "2",
    "--hops",
    "0,1",
    "--dtype",
    "float64",
]


def test_the_command_writes_labels_in_the_order_of_the_names(tmp_path, capsys):
    partition(named(), 1, tmp_path / "parts")
    arguments = [str(tmp_path / "parts"), *OPTIONS]
    assert main(arguments) == 0
    out = tmp_path / "parts-clusters"
    assert sorted(p.name for p in out.iterdir()) == [
        "labels.csv",
        "labels.npy",
        "networks.safetensors",
        "result.json",
    ]
    labels = np.load(out / "labels.npy")
    with (out / "labels.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["node", "cluster", "probability"]
    assert [row[:2] for row in rows[1:]] == [[f"n{i}", str(label)] for i, label in enumerate(labels)]
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]
    assert (result["iterations"], result["nodes"]) == (5, 120)
    said = capsys.readouterr()
    assert "left out of the default: the feature graph" in said.out
    assert "iteration 5 of 5" in said.err
    assert main(arguments) == 2
    assert "holds the results of an earlier run" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--tolerance", "none"]) == 0
    assert np.array_equal(np.load(out / "labels.npy"), labels)


def test_options_without_effect_are_refused(parts, capsys):
    assert main([str(parts["paper", 3]), "-k", "3", "--hops", "1"]) == 2
    assert "--hops has no effect on parts of preset 'paper'" in capsys.readouterr().err
    assert main([str(parts["paper", 3]), "-k", "3", "--device", "tpu"]) == 2
    assert "device must be 'auto', 'cpu' or 'cuda', got 'tpu'" in capsys.readouterr().err


# A process of a training; it ends with 3 where threads of its group are left. Still dropping their last message while
# Python shuts down, they abort it now and then.
PROCESS = """
import os, sys
from softcut.training.distributed.__main__ import main
code, tasks = main(), "/proc/self/task"
names = [open(f"{tasks}/{task}/comm").read() for task in os.listdir(tasks)] if os.path.isdir(tasks) else []
sys.exit(code or (3 if any("gloo" in name for name in names) else 0))
"""


def test_two_real_processes_agree_with_threads(tmp_path, monkeypatch):
    folder, out = tmp_path / "parts", tmp_path / "out"
    partition(GRAPH, 2, folder, method="random")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(folder), *OPTIONS, "--out", str(out), "--device", "cpu", "--timeout", "100"]
    common = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    other = subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments],
        env={**os.environ, **common, "RANK": "1", "LOCAL_RANK": "1", "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for name, value in {**common, "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 0  # the first process is this one
    message = other.communicate(timeout=100)[1]
    assert other.returncode == 0, message
    settings = DistributedSettings(3, 2, hops=(0, 1), iterations=5, start=2, dtype="float64")
    expected = trained(folder, settings, 2)
    state = load_file(out / "networks.safetensors")
    for name, value in expected[0].net.state_dict().items():
        torch.testing.assert_close(state[name], value, atol=1e-12, rtol=0)
    labels = np.load(out / "labels.npy")
    for found in expected:
        assert np.array_equal(labels[found.part.nodes], found.labels)
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]


def test_a_group_of_threads_reports_the_first_failure():
    def work(group: ThreadGroup):
        if group.rank == 1:
            raise SoftcutError("it broke")
        group.all_reduce(torch.ones(1))

    with pytest.raises(SoftcutError, match="it broke"):
        in_parts(2, work)
