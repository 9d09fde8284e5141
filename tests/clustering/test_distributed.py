"""Distributed training: any division of a graph gives the clustering of the whole graph."""

import copy
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.distributed as dist
from helpers.refusals import refuses
from helpers.thread_group import in_parts
from safetensors.torch import load_file

from softcut import Graph, GraphClustering
from softcut.clustering import PAPER, Recipe
from softcut.clustering.distributed import (
    DistributedSettings,
    JobError,
    JobGroup,
    ProcessError,
    partition,
    process_group,
    train_part,
)
from softcut.clustering.distributed import __main__ as command
from softcut.clustering.distributed.__main__ import all_labels, main
from softcut.clustering.distributed.group import TorchGroup, Traffic, step_traffic
from softcut.clustering.distributed.part import PartNodes, prepare_part
from softcut.clustering.networks import train_networks
from softcut.clustering.node_features import Nodes, rows_that_sum_to_one
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ParameterError
from softcut.io.part_files import open_part, read_manifest
from softcut.metrics import evidence, evidence_parts, nmi
from softcut.metrics.features import presence
from softcut.ops import CSR, Words
from softcut.training import ConvInput, Parts, ReplicaNet, replica_seeds, train, train_in_batches

GRAPH = attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)
QUICK = DistributedSettings(3, n_init=6, max_iter=30, dtype="float64")
PAPERS = DistributedSettings(3, n_init=2, max_iter=25, learning_rate=0.01, dtype="float64")
NO_EDGES = Recipe(edge_starts=0.0)


def weighted():
    first, second = np.triu(GRAPH.adjacency.toarray()).nonzero()
    rng = np.random.default_rng(0)
    weight, x = rng.uniform(0.1, 7, len(first)), GRAPH.x @ rng.normal(size=(40, 6))  # measurements, no words
    return Graph.from_edges([first, second], num_nodes=120, x=x, edge_weight=weight)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folders of the parts of one graph, by kind and number."""
    folder = tmp_path_factory.mktemp("divided")
    made = {}
    for kind, counts in {"default": (1, 2, 3, 4), "paper": (1, 2, 4), "weighted": (1, 3)}.items():
        for count in counts:
            made[kind, count] = folder / f"{kind}-{count}"
            graph = weighted() if kind == "weighted" else GRAPH
            partition(graph, count, made[kind, count], method="random", paper=kind == "paper")
    return made


def trained(folder, settings, count, **options):
    return in_parts(count, lambda group: train_part(folder, settings, group, **options))


def difference(net, other):
    ours, theirs = net.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def close(losses, expected):
    np.testing.assert_allclose(losses.cut, expected.cut, atol=1e-9, rtol=0)
    np.testing.assert_allclose(losses.ortho, expected.ortho, atol=1e-9, rtol=0)


def whole_of(results):
    labels, probability = np.zeros(120, dtype=int), np.zeros(120)
    for result in results:
        labels[result.part.nodes], probability[result.part.nodes] = result.labels, result.probability
    return labels, probability


def fitted(graph, **arguments):
    with warnings.catch_warnings():  # so small a graph hardly pays for its tables
        warnings.simplefilter("ignore")
        return GraphClustering(3, **arguments).fit(graph)


@pytest.fixture(scope="module")
def three(parts):
    return trained(parts["default", 3], QUICK, 3)


# ------------------------------------------------------------- the losses are those of the whole graph


def on_one_machine(folder, recipe):
    """Losses of the same networks from the same start, by `train` and in batches of all nodes."""
    manifest, part = read_manifest(folder), open_part(folder, 0)
    prepared = prepare_part(part, manifest, recipe, torch.float64, JobGroup())
    whole = CSR.from_graph(GRAPH, dtype=torch.float64)
    words = Words(presence(GRAPH.x))
    settings = recipe.training(torch.device("cpu"))
    results = []

    def trainer(net, start):
        shared, inputs = {"start": start.labels, "sizes": start.sizes}, prepared.encoded.inputs
        twin, batch = copy.deepcopy(net), Parts.ranges(120, 1, 1)
        results.append(train(net, inputs, whole, settings, words=words, **shared))
        results.append(train_in_batches(twin, inputs, whole, batch, settings, words=[words], **shared))
        assert difference(net, twin) < 1e-9
        return results[0]

    train_networks(prepared, 3, recipe, 0, print, trainer=trainer)
    return results


@pytest.mark.parametrize("objective", ["evidence", "mincut"])
def test_any_number_of_parts_and_one_batch_have_the_losses_of_the_whole_graph(parts, objective):
    # Batches stop all networks together, the others one by one: here none of them stops.
    recipe = Recipe(networks=6, iterations=30, edge_starts=0.0, objective=objective, tolerance=None)
    whole, batch = on_one_machine(parts["default", 1], recipe)
    close(batch, whole)
    assert whole.cut.shape == (30, 6) and (whole.ortho > 0).all()
    for count in (1, 2, 4):
        settings = DistributedSettings(3, dtype="float64", recipe=recipe)
        for result in trained(parts["default", count], settings, count):
            close(result.networks.result, whole)


def test_the_papers_network_is_trained_as_on_the_whole_graph(parts):
    whole = CSR.from_graph(GRAPH, dtype=torch.float64)
    x = rows_that_sum_to_one(GRAPH).toarray().astype(np.float32)  # as the parts store it
    inputs = ConvInput(whole, x.astype(np.float64), columns=1000, dtype=torch.float64)
    net = ReplicaNet(40, 3, replica_seeds(0, 2), terms=2, dtype=torch.float64)
    settings = PAPER.changed(iterations=25, learning_rate=0.01).training(torch.device("cpu"))
    result = train(net, inputs, whole, settings)
    for count in (1, 2, 4):
        for found in trained(parts["paper", count], PAPERS, count):
            assert difference(found.networks.net, net) < 1e-9
            close(found.networks.result, result)
            assert found.recipe == PAPER.changed(networks=2, iterations=25, learning_rate=0.01)
            replicas = found.networks.replicas
            best = min(range(2), key=lambda r: (replicas[r].collapsed, replicas[r].loss))
            np.testing.assert_allclose(found.probability, found.networks.s[:, best].amax(-1).numpy())


@pytest.mark.parametrize("kind", ["default", "weighted"])
def test_labels_are_those_of_the_estimator(parts, kind, monkeypatch):
    monkeypatch.setattr("softcut.training.mincut._START_ROWS", 50)  # every third node
    graph = weighted() if kind == "weighted" else GRAPH
    expected = fitted(graph, n_init=6, recipe=NO_EDGES)
    results = trained(parts[kind, 3], DistributedSettings(3, n_init=6), 3)
    labels, probability = whole_of(results)
    assert list(np.bincount(labels)) == sorted(np.bincount(labels), reverse=True)  # the largest first
    assert results[0].evidence == pytest.approx(evidence(graph, labels), rel=1e-9)
    assert nmi(expected.labels_, labels) > 0.99
    assert (expected.labels_ == labels).mean() > 0.98  # numbered alike, too
    assert np.median(np.abs(expected.soft_.max(1) - probability)) < 1e-3
    for found in results:
        assert found.structure == pytest.approx(evidence_parts(graph, labels).structure, rel=1e-9)
        assert found.structure == pytest.approx(expected.structure_, rel=1e-3)
        assert found.recipe.verdict(found.structure) == expected.verdict_
        assert found.recipe.digest == NO_EDGES.changed(networks=6).digest
        np.testing.assert_allclose(found.weights, expected.weights_, atol=1e-3)


def test_large_graphs_in_parts_take_the_same_samples(parts):
    recipe = Recipe(large=60, start_sample=40, networks=4, iterations=20, edge_starts=0.0)
    settings = DistributedSettings(3, dtype="float64", recipe=recipe)
    (alone,) = trained(parts["default", 1], settings, 1)
    said = ["clusters_from", "large_graph", "consensus_on_a_sample"]
    assert [note.code for note in alone.notes] == said
    several = trained(parts["default", 4], settings, 4)
    labels, _ = whole_of(several)
    assert np.array_equal(labels, alone.labels)
    for found in several:  # features are propagated in single precision there
        np.testing.assert_allclose(found.networks.result.cut, alone.networks.result.cut, atol=1e-5)
    expected = fitted(GRAPH, recipe=recipe)
    assert nmi(expected.labels_, alone.labels) > 0.9  # another algorithm for the projection of its features


def test_the_number_of_networks_follows_from_the_nodes_of_a_process(parts):
    recipe = Recipe(budget_cpu=30 * 8 * 19, iterations=2, edge_starts=0.0)  # 8 networks of 30 nodes
    settings = DistributedSettings(3, recipe=recipe)
    few = trained(parts["default", 1], settings, 1)[0]
    more = trained(parts["default", 4], settings, 4)[0]
    assert (few.networks.net.replicas, more.networks.net.replicas) == (4, 8)
    assert (
        "8 networks instead of 24: 30 nodes per process in 3 clusters, to stay within memory and time."
        in more.notes
    )


# ------------------------------------------------------------------------- the pieces, and what is sent


def test_samples_sums_and_agreed_numbers(parts):
    values = torch.arange(240.0).view(120, 2)

    def work(group):
        part = open_part(parts["default", 3], group.rank)
        nodes = PartNodes(part, read_manifest(parts["default", 3]), group)
        own = values[torch.from_numpy(np.array(part.nodes))]
        number = torch.tensor([1.5 + group.rank])
        return nodes.sample(own, 30), nodes.sample(own, 500), nodes.total(own.sum(0)), nodes.agreed(number)

    for some, every, total, agreed in in_parts(3, work):
        assert torch.equal(some, Nodes(120).sample(values, 30))
        assert torch.equal(every, values)
        assert torch.equal(total, values.sum(0))
        assert agreed.tolist() == [1.5]


@pytest.mark.parametrize("kind", ["default", "weighted"])
def test_the_judge_of_parts_is_that_of_the_whole_graph(parts, kind, monkeypatch):
    monkeypatch.setattr("softcut.clustering.distributed.part._ROWS_AT_ONCE", 7)
    graph = weighted() if kind == "weighted" else GRAPH
    whole = prepare(graph, NO_EDGES, torch.device("cpu"), print)
    labels = torch.randint(0, 3, (120, 2), generator=torch.Generator().manual_seed(0))
    expected, one = whole.judge(labels, 3), whole.judge(labels[:, 0], 3)

    def work(group):
        part = open_part(parts[kind, 3], group.rank)
        manifest = read_manifest(parts[kind, 3])
        prepared = prepare_part(part, manifest, NO_EDGES, torch.float32, group)
        assert prepared.words.price(3) == pytest.approx(float(whole.words.price(3)), rel=1e-12)
        assert prepared.adjacency.val is None or float(prepared.adjacency.val.max()) <= 1
        own = labels[torch.from_numpy(np.array(part.nodes))]
        return prepared.judge(own, 3), prepared.judge(own[:, 0], 3)

    for found, first in in_parts(3, work):
        torch.testing.assert_close(first.told, one.told, rtol=1e-9, atol=1e-9)
        for name in ("edges", "features", "entropy"):
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "settings"), [("default", QUICK), ("paper", PAPERS)])
def test_a_step_sends_what_the_model_says(parts, kind, settings):
    for found in trained(parts[kind, 2], settings, 2):
        net = found.networks.net
        sizes = {"replicas": net.replicas, "terms": net.terms, "itemsize": 8, "vocabulary": 40}
        rows, objective = len(found.part.send), found.recipe.objective
        assert found.step == step_traffic(rows, 3, net.in_channels, objective=objective, **sizes)
        assert found.step_networks == net.replicas and found.step.halo == 8 * 3 * net.replicas * rows
    # 7 rows of 2 x 3 numbers; S'AS, S'1, S'X of 5 words, S'S of two networks; 2 x (4 x 5 + 4 + 12 + 3) gradients
    model = step_traffic(7, 3, 5, hidden=4, replicas=2, itemsize=8, vocabulary=5)
    assert model == Traffic(8 * 7 * 6, 8 * (2 * (9 + 3 + 15 + 9) + 78))
    assert step_traffic(7, 3, 5) == Traffic(4 * 7 * 3, 4 * (9 + 3 + 9 + 16 * 5 + 16 + 3 * 16 + 3))
    cut = step_traffic(7, 3, 5, hidden=4, replicas=2, itemsize=8, objective="mincut")
    assert cut == Traffic(8 * 7 * 6, 8 * (22 + 78))


def test_a_training_goes_on_from_its_checkpoint(parts, three, tmp_path):
    def stop(progress):
        raise SystemExit

    file = tmp_path / "checkpoint.pt"
    with pytest.raises(SystemExit):
        trained(parts["default", 3], QUICK, 3, checkpoint=file, checkpoint_every=0, callback=stop)
    assert torch.load(file)["done"] == 4
    resumed = trained(parts["default", 3], QUICK, 3, checkpoint=file, checkpoint_every=0)
    for found, expected in zip(resumed, three, strict=True):
        assert difference(found.networks.net, expected.networks.net) == 0
        assert np.array_equal(found.labels, expected.labels)
        assert set(found.notes) - set(expected.notes) == {"resumed from a checkpoint after 4 iterations."}
    other = DistributedSettings(**{**vars(QUICK), "max_iter": 25})
    refuses(JobError, "was written with", trained, parts["default", 3], other, 3, checkpoint=file)


def test_labels_are_put_together_in_the_order_of_the_graph(parts, three, monkeypatch):
    monkeypatch.setattr("softcut.clustering.distributed.__main__._AT_ONCE", 7)
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
        with pytest.raises(JobError) as caught:
            train_part(tmp_path / "parts", QUICK, group)
        return str(caught.value)

    sentences = in_parts(2, sentence)
    assert sentences[0] == sentences[1]
    assert "part-1.x.npy is damaged" in sentences[0]


def test_what_cannot_be_trained_is_said_first(parts, tmp_path):
    for folder, settings, said in (
        (parts["default", 3], QUICK, r"has 3 parts, but 1 processes were started.*--nproc-per-node 3"),
        (parts["default", 1], DistributedSettings(121), "n_clusters is 121 but the graph has only 120 nodes"),
        (tmp_path, QUICK, "holds no parts"),
        (
            parts["default", 1],
            DistributedSettings(3, recipe=PAPER),
            "was written for the default networks, and",
        ),
    ):
        refuses(JobError, said, train_part, folder, settings, JobGroup())
    for change, said in (
        ({"n_init": 0}, "n_init must be a whole number of at least 1, got 0"),
        ({"random_state": -1}, "random_state must be between 0 and"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64"),
    ):
        refuses(ParameterError, said, DistributedSettings, **{"n_clusters": 3, **change})
    with pytest.raises(GraphError, match="graph is a batch of 2 graphs"):
        partition(Graph.batch([GRAPH, GRAPH]), 2, tmp_path / "parts")


def test_a_lost_process_is_one_sentence(monkeypatch):
    def lost(*arguments):
        raise RuntimeError("[/src/pair.cc:537] Read error [127.0.0.1]:160: Connection reset by peer. GLHF!")

    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lost)
    said = r"process 1: another process of the job ended or cannot be reached \(Connection reset by peer\);"
    refuses(ProcessError, said, TorchGroup().all_reduce, torch.ones(1))


def test_a_graph_without_features_gets_positions(tmp_path):
    manifest = partition(GRAPH.with_features(None), 1, tmp_path / "parts")
    assert (manifest.columns, manifest.vocabulary) == (32, 0)
    (found,) = trained(tmp_path / "parts", QUICK, 1)
    assert found.evidence == pytest.approx(evidence(GRAPH.with_features(None), found.labels))
    assert found.notes[0].startswith(
        "the nodes have no features: the networks read the structure of the graph"
    )
    assert found.notes[0].values == {"source": "structure"} and found.notes[1].code == "no_edge_starts"


# ------------------------------------------------------------------------------------------------ the command


def named():
    first, second = GRAPH.edge_index()[0]
    names = [f"n{i}" for i in range(120)]
    return Graph.from_edges([first, second], num_nodes=120, x=GRAPH.x, node_names=names)


OPTIONS = ["-k", "3", "--n-init", "2", "--max-iter", "5", "--dtype", "float64"]


def test_the_command_writes_labels_in_the_order_of_the_names(tmp_path, capsys):
    partition(named(), 1, tmp_path / "parts")
    arguments = [str(tmp_path / "parts"), *OPTIONS]
    assert main(arguments) == 0
    out = tmp_path / "parts-clusters"
    names = {"labels.csv", "labels.npy", "networks.safetensors", "result.json"}
    assert {p.name for p in out.iterdir()} == names
    labels = np.load(out / "labels.npy")
    with (out / "labels.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["node", "cluster", "probability"]
    assert [row[:2] for row in rows[1:]] == [[f"n{i}", str(label)] for i, label in enumerate(labels)]
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]
    assert (result["iterations"], result["nodes"]) == (5, 120)
    said = capsys.readouterr()
    assert "left out: networks that begin from clusters of the edges" in said.out
    assert result["recipe"] == Recipe(edge_starts=0.0).changed(networks=2, iterations=5).digest
    assert result["verdict"] == Recipe().verdict(result["structure"])
    assert result["structure"] == pytest.approx(evidence_parts(GRAPH, labels).structure)
    assert f"verdict: {result['verdict']} (structure {result['structure']:.2f}" in said.out
    assert "iteration 5 of 5" in said.err
    assert main(arguments) == 2
    assert "holds the results of an earlier run" in capsys.readouterr().err
    assert main([*arguments, "--device", "tpu"]) == 2
    assert "device must be 'auto', 'cpu' or 'cuda', got 'tpu'" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert np.array_equal(np.load(out / "labels.npy"), labels)


def test_how_a_process_ends(tmp_path, monkeypatch, capsys):
    given, before = [], signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(command, "process_group", lambda *asked: nullcontext(asked))

    def ends(rank, error):
        def run(*arguments):
            given.append(arguments)
            raise error

        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(command, "_run", run)
        return main([str(tmp_path), "-k", "3"]), capsys.readouterr().err

    assert ends(0, ParameterError("No.")) == (2, "softcut: No.\n")
    assert ends(1, ParameterError("No.")) == (2, ""), "the first process says the same"
    assert ends(1, ProcessError("Lost.")) == (1, "softcut: Lost.\n")
    arguments, asked = given[0]
    given = *asked, arguments["checkpoint_every"], arguments["overwrite"]
    assert given == ("auto", 600.0, 10.0, False)
    monkeypatch.setattr(command, "_run", lambda *arguments: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path), "-k", "3"])
    assert caught.value.code == 130 and signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("gpus", "asked", "chosen"),
    [(2, "cuda", "cuda:1"), (3, "auto", "cuda:1"), (1, "auto", "cpu"), (2, "cpu", "cpu"), (1, "cuda", None)],
)
def test_gpus_are_used_where_each_process_has_one(gpus, asked, chosen, monkeypatch):
    seen = []
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", seen.append)
    if chosen is None:
        refuses(ParameterError, "2 processes of this machine have 1 GPUs", process_group(asked).__enter__)
    else:
        with process_group(asked) as group:
            assert str(group.device) == chosen and seen == [group.device] * (chosen != "cpu")


# A process of a training; it ends with 3 where threads of its group are left. Still dropping their last message while
# Python shuts down, they abort it now and then.
PROCESS = """
import os, sys
from softcut.clustering.distributed.__main__ import main
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
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
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
    settings = DistributedSettings(3, n_init=2, max_iter=5, dtype="float64")
    expected = in_parts(2, lambda group: train_part(folder, settings, group))
    state = load_file(out / "networks.safetensors")
    for name, value in expected[0].networks.net.state_dict().items():
        torch.testing.assert_close(state[name], value, atol=1e-12, rtol=0)
    labels = np.load(out / "labels.npy")
    for found in expected:
        assert np.array_equal(labels[found.part.nodes], found.labels)
    result = json.loads((out / "result.json").read_text())
    assert result["bytes_per_step"] == result["bytes_per_step_of_the_model"]
