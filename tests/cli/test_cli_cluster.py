"""``softcut cluster`` and ``softcut predict``: what is written, what is said, and no silent wrong answers."""

import csv
import html
import json
import re
import shlex
import sys
import warnings
from itertools import combinations
from pathlib import Path
from unittest.mock import ANY, Mock, create_autospec

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest

from softcut.cli.cluster import _default_folder, _name, write_results
from softcut.clustering import GraphClustering, MinCutClustering
from softcut.errors import Note, ParameterError
from softcut.graph import Graph
from softcut.io import read_graph
from softcut.metrics import ari
from softcut.metrics.summary import VERDICTS

QUICK = ("--n-init", 4, "--max-iter", 30, "--no-plot")


def labels(folder):
    with Path(folder, "labels.csv").open(newline="") as file:
        return {row["node"]: int(row["cluster"]) for row in csv.DictReader(file)}


def read_table(path):
    with Path(path).open(newline="") as file:
        return [*csv.DictReader(file)]


def metrics_of(folder):
    return json.loads(Path(folder, "metrics.json").read_text())


def shown_facts(out):
    """The closing table."""
    return dict(re.findall(r"│ (.*?) +│ +(.*?) │", out))


def test_cluster_writes_labels_with_names(done, people, tmp_path):
    graph, names = people
    words = ("people.csv", "-f", "words.csv", "-k", 3, "--n-init", 8, "--model-out", "m", "--report")
    out, _ = done("cluster", *words)
    folder = tmp_path / "people-clusters"
    files = [
        "assignments.npy",
        "clusters.csv",
        "clusters.png",
        "communities.json",
        "labels.csv",
        "labels.parquet",
        "metrics.json",
    ]
    files.append("report.html")
    assert sorted(p.name for p in folder.iterdir()) == files
    page = (folder / "report.html").read_text(encoding="utf-8")
    views = (f'data-view="{view}"' for view in ("graph", "groups", "heat", "curves", "dots"))
    assert all(text in page for text in (*names, *views))
    told = labels(folder)
    truth = dict(zip(names, graph.y, strict=True))
    assert sorted(told) == names
    assert ari([truth[name] for name in told], [*told.values()]) > 0.8
    soft = np.load(folder / "assignments.npy")
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-5)
    assert soft.argmax(1).tolist() == [*told.values()]
    table = parquet.read_table(folder / "labels.parquet")
    assert table.column_names == ["node", "cluster", "probability", "p0", "p1", "p2"]
    assert (table["node"].to_pylist(), table["cluster"].to_pylist()) == ([*told], [*told.values()])
    assert table["p1"].to_pylist() == soft[:, 1].tolist()
    assert table["probability"].to_pylist() == soft.max(1).tolist()

    metrics = metrics_of(folder)
    assert (metrics["graph"], metrics["nodes"], metrics["clusters_used"]) == ("people.csv", 120, 3)
    assert (metrics["candidates"], metrics["interrupted"]) == ({}, False)
    lines = out.splitlines()
    # What it is worth comes first, then every cluster, then the numbers.
    assert lines[0] == f"{VERDICTS[metrics['verdict']]} 120 nodes in 3 clusters."
    summary = read_table(folder / "clusters.csv")
    assert [int(row["size"]) for row in summary] == np.bincount([*told.values()]).tolist()
    for row in summary:
        assert f"cluster {row['cluster']}: {row['size']} nodes" in out
        assert set(row["typical"].split(", ")) <= {n for n, c in told.items() if c == int(row["cluster"])}
        assert "elsewhere" in row["differs_by"] and f"differs by: {row['differs_by'][:20]}" in out
        for part in ("differs_by", "bridges"):  # a line each
            assert row[part].replace(", ", "\n") in page
    title = next(
        i
        for i, line in enumerate(lines)
        if line.strip() == f"people.csv: 120 nodes, {metrics['edges']} edges"
    )
    assert title > next(i for i, line in enumerate(lines) if line.startswith("cluster 2"))
    facts = shown_facts(out)
    assert float(facts.pop("seconds")) < 1000 and 0 < metrics["seconds"]["read"] < 1000
    numbers = {name: f"{metrics[name.replace(' ', '_')]:.2f}" for name in ("normalised cut", "modularity")}
    assert facts == {"clusters used": "3 of 3", **numbers}
    written = [*(f"people-clusters/{f}" for f in files), "m.safetensors"]
    assert lines[-2:] == ["Written: " + ", ".join(written), "Report: people-clusters/report.html"]

    out, _ = done("predict", "m", "people.csv", "--features", "words.csv", "--out", "again", "--no-plot")
    assert labels("again") == told
    assert metrics_of("again")["model"] == "m" and shown_facts(out)["clusters used"] == "3 of 3"
    np.testing.assert_allclose(np.load("again/assignments.npy"), soft, atol=1e-5)
    assert not Path("again/clusters.png").exists()
    assert Path("again/clusters.csv").read_text() == (folder / "clusters.csv").read_text()
    assert out.startswith("120 nodes in 3 clusters.\n")  # a prediction has no verdict


def test_a_data_set_is_clustered_by_name_unless_there_is_such_a_file(
    done, run, people, tmp_path, monkeypatch
):
    graph, _ = people
    asked = []
    monkeypatch.setattr(
        "softcut.datasets.load", lambda name, **options: asked.append((name, options)) or graph
    )
    words = ("-k", 3, "--n-init", 2, "--max-iter", 30, "--no-plot")
    _, err = done("cluster", "Cora", *words, "--model-out", "m")
    assert "cora: the data set of that name, 120 nodes, 480 edges, 30 features" in err
    assert json.loads(Path("Cora-clusters/metrics.json").read_text())["graph"] == "Cora"
    (tmp_path / "cora").mkdir()  # a folder is no graph
    done("predict", "m", "cora", "--keep-self-loops", "--no-plot")
    assert asked == [("cora", {"self_loops": "drop"}), ("cora", {"self_loops": "keep"})]
    (tmp_path / "pubmed").write_text((tmp_path / "people.csv").read_text())
    _, err = done("cluster", "pubmed", "--format", "edges", *words)
    assert "pubmed is the file of that name in this folder, not the data set pubmed." in err
    assert len(asked) == 2


def test_columns_that_say_where_nodes_are_drawn(done, refused, ring, monkeypatch, tmp_path):
    table = "id,salary,age\n" + "".join(f"{i},{30_000 + 997 * i % 7001},{20 + i % 13}\n" for i in range(30))
    (tmp_path / "people.csv").write_text(table)
    drawn = []
    monkeypatch.setattr(
        "softcut.report.plots.draw_partition", lambda ax, graph, labels, *rest: drawn.append(rest[0])
    )
    words = (
        *(word for word in ring if word != "--no-plot"),
        "-f",
        "people.csv",
        "--report",
        "--model-out",
        "m",
    )
    done(*words, "--out", "a")
    assert '"positions": "layout' in Path("a/report.html").read_text().replace('":"', '": "')
    done(*words, "--out", "b", "--overwrite", "--position", "age", "salary")
    assert '"positions": "coordinates: age and salary"' in Path("b/report.html").read_text().replace(
        '":"', '": "'
    )
    done("predict", "m", "ring.csv", "-f", "people.csv", "--out", "c", "--position", 1, 0)
    assert drawn[0].max() < 30 and drawn[1][:, 0].max() == drawn[2][:, 0].max() == 32
    said = refused(*words, "--out", "d", "--overwrite", "--position", "age", "height")
    assert "--position must name columns of the features, got 'height'; there are 'salary', 'age'." in said


def test_verbose_shows_every_score(done, ring):
    out, _ = done(*ring, "--verbose", "--out", "all")
    metrics, facts = metrics_of("all"), shown_facts(out)
    del facts["seconds"]
    same = {name: name.replace(" ", "_") for name in ("normalised cut", "modularity", "balance")}
    same |= {"structure (nats explained per nat)": "structure"}
    same |= {"evidence (nats per nat of labels)": "evidence"}
    same |= {"agreement of restarts (ARI)": "agreement_of_replicas"}
    numbers = {name: f"{metrics[key]:.4f}" for name, key in same.items()}
    used = f"{metrics['clusters_used']} of {metrics['n_clusters']}"
    assert facts == {"verdict": metrics["verdict"], "clusters used": used, **numbers}


def test_cluster_without_features_says_so(done, ring):
    _, err = done(*ring, "-k", "auto")
    assert "the clusters come from the edges alone: no features were given." in err
    assert "No communities: the edges have no more" in err and "standard deviations" not in err
    _, err = done(*ring, "-k", "auto", "--verbose", "--overwrite")
    assert "of their standard deviations (20 were made)" in err


def test_the_command_in_the_report_can_be_pasted(done, here, monkeypatch):
    name = "my <b>friends & co.csv"
    Path(name).write_text("a,b\nb,c\nc,a\nd,e\ne,f\nf,d\n")
    words = ["cluster", name, "-k", "2", "--report", "--out", "it's here", "--no-plot"]
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3", "softcut", *words])
    done(*words)
    page = Path("it's here/report.html").read_text(encoding="utf-8")
    (command,) = re.findall(r'<th scope="row">command</th><td[^>]*>(.*?)</td>', page)
    assert shlex.split(html.unescape(command)) == ["softcut", *words]
    assert "<b>friends" not in page and "&lt;b&gt;friends" in page


def test_nothing_is_said_twice_and_the_model_runs_once(done, ring, monkeypatch):
    fit = GraphClustering.fit

    def told(self, graph, start=None):
        fit(self, graph, start=start)
        self.notes_.append(Note("agreement", "restarts hardly agree."))
        warnings.warn("restarts hardly agree.", stacklevel=2)

    monkeypatch.setattr(GraphClustering, "fit", told)
    predicted = create_autospec(GraphClustering.assign, side_effect=GraphClustering.assign)
    monkeypatch.setattr(GraphClustering, "assign", predicted)
    _, err = done(*ring, "--model-out", "m")
    assert err.count("note: restarts hardly agree.") == 1
    predicted.assert_not_called()  # the soft assignments of the fit are at hand
    done("predict", "m", "ring.csv", "--out", "again", "--no-plot")
    predicted.assert_called_once()


OPEN = {
    **dict.fromkeys(("objective", "scale", "min_size", "max_size", "use")),
    "pattern": "communities",
}


@pytest.mark.parametrize(
    ("kind", "words", "more"),
    [
        (GraphClustering, (), OPEN),
        (GraphClustering, ("--objective", "dmon"), {**OPEN, "objective": "dmon"}),
        (
            GraphClustering,
            (*("--scale", "0.5", "--min-size", 3, "--max-size", 9), *("--pattern", "any", "--use", "both")),
            {**OPEN, "scale": 0.5, "min_size": 3, "max_size": 9, "pattern": "any", "use": "both"},
        ),
        (MinCutClustering, ("--paper",), {}),
    ],
)
def test_options_reach_the_estimator(run, ring, monkeypatch, kind, words, more):
    made = Mock(side_effect=ParameterError("enough"))
    monkeypatch.setattr(kind, "__init__", made)
    code, _, err = run(*ring[:2], "-k", "2:5", *words, "--seed", 7, "--device", "cpu", "--max-iter", 9)
    assert (code, err) == (2, "softcut: enough\n")
    arguments = {"n_init": None, "random_state": 7, "device": "cpu", "max_iter": 9, "callbacks": ANY}
    made.assert_called_once_with(n_clusters=range(2, 6), **arguments, **more)


def test_names_that_spreadsheets_would_run(done, tmp_path):
    names = ["=cmd()", "+1+1", "-1", "-x", "@x", "ann", "bob"]
    edges = "".join(f"{a},{b}\n" for a in names for b in names if a < b)
    (tmp_path / "g.csv").write_text("source,target\n" + edges)
    words = ("cluster", "g.csv", "-k", 2, "--n-init", 2, "--max-iter", 5, "--no-plot")
    done(*words, "--out", "plain")
    done(*words, "--out", "safe", "--spreadsheet-safe")
    assert sorted(labels("plain")) == sorted(names)
    assert sorted(labels("safe")) == sorted(["'=cmd()", "'+1+1", "'-1", "'-x", "'@x", "ann", "bob"])
    for plain, safe in zip(read_table("plain/clusters.csv"), read_table("safe/clusters.csv"), strict=True):
        typical = plain["typical"]
        assert safe["typical"] == ("'" + typical if typical[0] in "=+-@" else typical)


def test_metrics_hold_what_was_warned_about(done, tmp_path):
    # A complete graph without features: no clustering is better than another.
    (tmp_path / "g.csv").write_text("".join(f"{a},{b}\n" for a, b in combinations(range(20), 2)))
    _, err = done("cluster", "g.csv", "-k", 2, *QUICK, "--out", "o")
    metrics = metrics_of("o")
    (warned,) = (text for text in metrics["notes"] if "The graph may have no clusters" in text)
    assert err.count(warned) == 1
    assert metrics["verdict_sentence"] == VERDICTS["none"]
    assert (metrics["level"], metrics["levels"]) == (0, [{"level": 0, "clusters": 2}])
    assert metrics["verdict"] == "none" and metrics["structure"] < 1
    assert metrics["replicas"] == 0  # found from the edges, without networks
    assert "20 nodes, 190 edges" in metrics["reading"]


def test_the_probability_is_that_of_the_label(tmp_path, monkeypatch, capsys):
    soft = np.array([[0.25, 0.75], [0.875, 0.125]])
    graph = Graph.from_edges([[0], [1]], node_names=["=x", "y"])
    write_results(
        tmp_path, graph, soft, soft.argmax(1), {"graph": "g", "agreement_of_replicas": float("nan")}
    )
    assert json.loads((tmp_path / "metrics.json").read_text())["agreement_of_replicas"] is None
    text = (tmp_path / "labels.csv").read_text().splitlines()
    assert text == ["node,cluster,probability", "=x,1,0.750000", "y,0,0.875000"]
    assert (tmp_path / "clusters.png").exists()
    (tmp_path / "new").mkdir()
    for module in ("pyarrow", "matplotlib", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, module, None)
    write_results(tmp_path / "new", graph, soft, soft.argmax(1), {"graph": "g"})
    said = capsys.readouterr().err
    for file, extra in (("labels.parquet", "tables"), ("clusters.png", "report")):
        assert f"note: no {file}: " in said and f"pip install 'softcut[{extra}]'" in said
        assert not (tmp_path / "new" / file).exists()


@pytest.mark.parametrize(
    ("file", "name", "folder"),
    [
        ("a/people.csv.gz", "people.csv.gz", "people"),
        ("-", "standard input", "graph"),
        (".csv", ".csv", "graph"),
    ],
)
def test_folders_are_named_after_the_graph(file, name, folder):
    assert (_name(Path(file)), _default_folder(Path(file))) == (name, Path(f"{folder}-clusters"))


def test_nodes_that_nothing_is_known_of_have_no_cluster(done, tmp_path):
    """Two triangles, and two nodes of the features without edges and without words."""
    (tmp_path / "g.csv").write_text("a,b\nb,c\na,c\nx,y\ny,z\nx,z\nc,x\n")
    out, _ = done("cluster", "g.csv", "-k", 2, *QUICK, "--out", "o", "--report", "--model-out", "m")
    assert metrics_of("o")["nodes_without_cluster"] == 0
    assert "in no cluster" not in out + Path("o/report.html").read_text()
    words = np.zeros((8, 20), dtype=int)
    words[:3, :10] = words[3:6, 10:] = 1
    pd.DataFrame(words, index=pd.Index(list("abcxyzpq"), name="id")).add_prefix("w").to_csv("w.csv")
    fit = ["cluster", "g.csv", "-k", 2, *QUICK, "--model-out", "n", "--report"]
    for command in (fit, ["predict", "n", "g.csv"]):
        folder = command[0]
        out, _ = done(*command, "-f", "w.csv", "--out", folder)
        labels = pd.read_csv(f"{folder}/labels.csv", index_col="node")
        assert labels.loc[["p", "q"]].isna().all(axis=None)
        assert labels.loc[list("abcxyz")].notna().all(axis=None)
        table = pd.read_parquet(f"{folder}/labels.parquet").set_index("node")
        assert table["cluster"].isna().tolist() == labels["cluster"].isna().tolist()
        np.testing.assert_allclose(np.load(f"{folder}/assignments.npy")[-2:], 0.5)
        assert metrics_of(folder)["nodes_without_cluster"] == 2
        assert metrics_of(folder)["clusters_used"] == 2
        assert "nodes without edges and features" in out
    page = Path("cluster/report.html").read_text()
    assert "8 nodes in 2 clusters, 2 in none." in page and "in no cluster, not shown" in page
    assert {row["size"] for row in read_table("predict/clusters.csv")} == {"3"}


def test_two_kinds_of_nodes_are_reported_by_kind(done):
    """Users and movies, both numbered from 1."""
    rng = np.random.default_rng(0)
    u, v = (rng.random((30, 20)) < np.kron(np.eye(2), np.full((15, 10), 0.5))).nonzero()
    pd.DataFrame({"user_id": u + 1, "movie_id": v + 1, "rating": 3}).to_csv("r.csv", index=False)
    out, err = done("cluster", "r.csv", "-k", 2, "--out", "o", "--no-plot", "--report")
    assert "kept apart (--no-bipartite: equal ids are one node)" in err
    told = pd.read_csv("o/labels.csv")
    assert list(told) == ["node", "cluster", "probability", "kind", "id"]
    assert (told["node"] == told["kind"] + " " + told["id"].astype(str)).all()
    assert told.groupby("kind").size().to_dict() == {"movie_id": 20, "user_id": 30}
    for _, own in told.groupby("kind"):
        assert ari(own["id"] > len(own) / 2, own["cluster"]) == 1
    table = pd.read_parquet("o/labels.parquet")
    assert table["id"].tolist() == told["id"].astype(str).tolist()
    assert metrics_of("o")["clusters_by_kind"] == {"user_id": [15, 15], "movie_id": [10, 10]}
    facts = shown_facts(out)
    assert (facts["user_id by cluster"], facts["movie_id by cluster"]) == ("15, 15", "10, 10")
    assert "Nodes of each kind in each cluster." in Path("o/report.html").read_text()
    done("cluster", "r.csv", "-k", 2, "--out", "p", "--no-plot", "--no-bipartite", "--keep-self-loops")
    assert metrics_of("p")["nodes"] == 30


@pytest.fixture
def fitted(done, people):
    """A model of people.csv and words.csv, and the rows of words.csv."""
    done("cluster", "people.csv", "-f", "words.csv", "-k", 3, *QUICK, "--model-out", "m", "--out", "o")
    return [line.split(",") for line in Path("words.csv").read_text().splitlines()]


def write_rows(path, rows):
    Path(path).write_text("".join(",".join(row) + "\n" for row in rows))


def test_columns_are_matched_by_name_and_those_without_are_said(done, refused, fitted):
    words = ("predict", "m", "people.csv", "--no-plot", "-f", "other.csv", "--out")
    shuffled = [0, *(1 + np.random.default_rng(0).permutation(30)).tolist()]
    write_rows("other.csv", [[row[j] for j in shuffled] for row in fitted])
    done(*words, "p")
    write_rows("other.csv", [["id", "colour", *fitted[0][2:]], *fitted[1:]])
    assert "missing: 'w0'; not known: 'colour'" in refused(*words, "q")
    write_rows("other.csv", fitted[1:])
    _, err = done(*words, "bare")
    said = "the features have no names, but those of the fit had"
    assert err.count(said) == 1
    assert any(said in text for text in metrics_of("bare")["notes"])
    assert labels("p") == labels("bare") == labels("o")


def test_an_older_picture_does_not_stay(done, refused, ring):
    words = (*ring[:-1], "--out", "o")
    done(*words, "-k", 2)
    assert Path("o/clusters.png").exists()
    assert "--overwrite" in refused(*words, "-k", 3, "--no-plot")
    done(*words, "-k", 3, "--no-plot", "--overwrite")
    assert not Path("o/clusters.png").exists()
    assert np.load("o/assignments.npy").shape == (30, 3)


def test_numbers_that_json_does_not_have(tmp_path):
    graph = Graph.from_edges([[0], [1]])
    metrics = {"graph": "g", "agreement_of_replicas": float("nan"), "seconds": {"fit": float("inf")}, "n": 2}
    write_results(tmp_path, graph, np.eye(2), np.arange(2), metrics, plot=False)
    text = (tmp_path / "metrics.json").read_text()
    read = json.loads(text, parse_constant=Mock(side_effect=AssertionError("not JSON")))
    assert read == {"graph": "g", "agreement_of_replicas": None, "seconds": {"fit": None}, "n": 2}


def test_features_alone(done, refused, people, tmp_path):
    _, names = people
    _, err = done("cluster", "-f", "words.csv", "-k", 3, "--neighbors", 5, "--model-out", "m", *QUICK)
    assert "edges to the 5 nearest rows" in err
    told = labels("words-clusters")
    assert sorted(told) == names
    assert metrics_of("words-clusters")["graph"] == "words.csv"
    done("predict", "m", "--features", "words.csv", "--neighbors", 5, "--out", "again", "--no-plot")
    assert labels("again") == told
    assert refused("cluster", "-k", 3) == "softcut: name a file of edges, or features with --features."
    sentence = refused("cluster", "people.csv", "-f", "words.csv", "-k", 3, "--neighbors", 5, "--out", "o")
    assert sentence == "softcut: --neighbors has no effect beside a graph: leave it out, or the graph."


@pytest.mark.parametrize("kind", ["gexf", "graphml", "json"])
def test_export_is_read_again_with_its_clusters(done, refused, people, kind):
    out, _ = done("cluster", "people.csv", "-k", 3, "--export", f"p.{kind}", *QUICK)
    assert f"p.{kind}" in out
    told = labels("people-clusters")
    again = read_graph(f"p.{kind}", features=["cluster"])
    assert dict(zip(again.node_names, again.x.ravel().tolist(), strict=True)) == told
    assert again.num_edges == metrics_of("people-clusters")["edges"]
    sentence = refused("cluster", "people.csv", "-k", 3, "--out", "o", "--export", f"p.{kind}", *QUICK)
    assert sentence == f"softcut: --export p.{kind} exists; choose another name or add --overwrite."


def test_export_into_the_folder_of_results(done, refused, people):
    words = ("cluster", "people.csv", "-k", 3, "--out", "o", "--export", "o/p.gexf", *QUICK)
    done(*words)
    done(*words, "--overwrite")
    assert Path("o/p.gexf").is_file()
    for name, sentence in (
        ("p.csv", "--export writes no .csv, which has no place for clusters; labels.csv has them."),
        ("p.dot", "--export p.dot must end in .graphml, .gexf or .json."),
    ):
        assert refused("cluster", "people.csv", "-k", 3, "--export", name) == f"softcut: {sentence}"


def test_encoding(done, refused, tmp_path):
    rows = "source,target\n" + "".join(f"Анна{i},Анна{j}\n" for i, j in combinations(range(5), 2))
    (tmp_path / "g.csv").write_bytes(rows.encode("cp1251"))
    assert "name its --encoding such as 'cp1252'." in refused("cluster", "g.csv", "-k", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, err = done("cluster", "g.csv", "-k", 2, "--encoding", "cp1251", "--no-plot")
    assert "encoding cp1251 (as asked for)" in err
    assert "Анна0" in labels("g-clusters")


BLOCKS = ("cluster", "blocks.csv", "--no-plot")


@pytest.fixture
def blocks(tmp_path):
    """Four pairs of cliques of six nodes: two scales, by name."""
    lines = []
    for c in range(8):
        names = [f"n{6 * c + i}" for i in range(6)]
        lines += [f"{a},{b}" for a, b in combinations(names, 2)]
        beside, next_pair = (c ^ 1), (c + 2) % 8
        lines += [f"n{6 * c + i},n{6 * beside + i}" for i in range(3) if c < beside] + [
            f"n{6 * c},n{6 * next_pair}"
        ]
    (tmp_path / "blocks.csv").write_text("source,target\n" + "\n".join(lines) + "\n")


def test_without_a_number_levels_are_found_and_written(done, blocks, tmp_path):
    out, err = done("cluster", "blocks.csv", "--model-out", "m", "--report", "--verbose")
    folder = tmp_path / "blocks-clusters"
    metrics, table = metrics_of(folder), read_table(folder / "labels.csv")
    counts = [each["clusters"] for each in metrics["levels"]]
    assert 4 in counts and 8 in counts and counts == sorted(counts)
    said = f"(level {metrics['level']} of 0 to {len(counts) - 1}: {', '.join(map(str, counts))} clusters)."
    assert (
        out.splitlines()[0]
        == f"{metrics['verdict_sentence']} 48 nodes in {metrics['n_clusters']} clusters {said}"
    )
    assert [name for name in table[0] if name.startswith("level_")] == [
        f"level_{i}" for i in range(len(counts))
    ]
    assert all(row["cluster"] == row[f"level_{metrics['level']}"] for row in table)
    assert (folder / "levels.png").stat().st_size > 1000
    tree = json.loads((folder / "communities.json").read_text())
    assert sum(counts) == len(tree["communities"]) and tree["level"] == metrics["level"]
    assert ">Levels</h2>" in (folder / "report.html").read_text(encoding="utf-8")
    assert "standard deviations" in err
    for level, count in enumerate(counts):
        out, _ = done("predict", "m", "blocks.csv", "--level", level, "--out", f"l{level}", "--no-plot")
        assert out.startswith(f"48 nodes in {count} clusters.\n")
        assert labels(f"l{level}") == {row["node"]: int(row[f"level_{level}"]) for row in table}
        assert metrics_of(f"l{level}")["level"] == level
    done(*BLOCKS, "-k", "auto", "--out", "auto")
    assert labels("auto") == labels(folder) and not (tmp_path / "auto/levels.png").exists()


def test_scales_and_sizes(done, blocks):
    counts = {}
    for name, words in {
        "coarse": ("--scale", "coarse"),
        "fine": ("--scale", "fine"),
        "number": ("--scale", "1"),
        "small": ("--max-size", 6),
    }.items():
        out, _ = done(*BLOCKS, *words, "--out", name)
        assert out.startswith("The graph has clear clusters. 48 nodes in ")
        counts[name] = metrics_of(name)["n_clusters"]
    assert counts["coarse"] < counts["fine"]
    assert max(np.bincount([*labels("small").values()])) <= 6


@pytest.mark.parametrize("earlier", ["first/labels.csv", "m", "m.safetensors"])
def test_clusters_that_persist_keep_their_numbers(done, blocks, tmp_path, earlier):
    done(*BLOCKS, "--out", "first", "--model-out", "m")
    names = labels("first")
    (tmp_path / "blocks.csv").open("a").write("new,n0\nnew,n1\n")
    _, err = done(*BLOCKS, "--out", "second", "--start", earlier)
    again = labels("second")
    assert {name: again[name] for name in names} == names and again["new"] == names["n0"]
    count = metrics_of("first")["n_clusters"]
    assert f"{count} of {count} clusters persist." in err


def test_the_first_use_of_the_engine_is_announced(done, blocks, monkeypatch):
    said = "compiling the search for communities, once for this machine"
    monkeypatch.setattr("softcut.communities.compiled.is_cached", lambda kernel: False)
    assert said in done(*BLOCKS, "--out", "first")[1]
    monkeypatch.setattr("softcut.communities.compiled.is_cached", lambda kernel: True)
    assert said not in done(*BLOCKS, "--out", "second")[1]


def test_a_huge_table_of_assignments_is_left_out(done, blocks, monkeypatch):
    monkeypatch.setattr("softcut.report.clustering_files.MOST_ASSIGNMENTS", 100)
    _, err = done(*BLOCKS, "--out", "o")
    count = metrics_of("o")["n_clusters"]
    assert (
        f"no assignments.npy: 48 x {count} numbers are too many; labels.csv has the largest of each node."
        in err
    )
    assert not Path("o/assignments.npy").exists()


def test_ctrl_c_in_compiled_code_is_no_traceback(run, blocks, monkeypatch):
    def stopped(*words, **more):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error

    monkeypatch.setattr(GraphClustering, "fit", stopped)
    code, _, err = run(*BLOCKS)
    assert code == 130 and err.endswith("softcut: interrupted.\n")


@pytest.mark.parametrize("runs", [3, 30])
def test_ctrl_c_keeps_the_levels_found_so_far(run, blocks, monkeypatch, runs):
    from softcut.communities import scales

    find, made = scales.communities, []

    def stopped(*words, **more):
        made.append(1)
        if len(made) == runs:
            raise KeyboardInterrupt
        return find(*words, **more)

    monkeypatch.setattr(scales, "communities", stopped)
    code, out, err = run(*BLOCKS, "--verbose", "--out", "o")
    metrics = metrics_of("o")
    assert code == 130 and metrics["interrupted"] and metrics["verdict"] == "unknown"
    assert out.startswith(f"48 nodes in {metrics['n_clusters']} clusters")  # no verdict: nothing was compared
    assert "interrupted; the result is what was found until then." in err
    assert shown_facts(out)["interrupted"] == "during the search"
    assert shown_facts(out)["verdict"] == "unknown"
    assert labels("o") and Path("o/communities.json").exists()
