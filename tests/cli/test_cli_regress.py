"""``softcut regress``: folders and tables of molecules, what is written and said, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from softcut.learning import GraphRegression
from softcut.metrics.predictions import number_scores

QUICK = ("--device", "cpu", "--n-init", 1, "--lr", 0.01)


def rows_of(folder):
    with Path(folder, "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def chains(tmp_path):
    """A table of chains of carbon with an end of its own; the number of atoms and of hydrogens to predict."""
    pytest.importorskip("rdkit")

    def write(name="chains.csv", count=48):
        lines = ["name,smiles,atoms,ends"]
        for i in range(count):
            n = 1 + i % 8
            lines.append(f"m{i},{'C' * n}{'NO'[i % 2]},{n + 1},{i % 2}")
        Path(name).write_text("\n".join(lines) + "\n")

    return write


def test_train_save_and_predict_numbers_of_a_folder(done, refused, shapes):
    shapes("shapes", 60, labels=False, numbers=True)
    out, _ = done("regress", "shapes", "--epochs", 40, *QUICK, "--held-out", 0.2, "--model-out", "m")
    every = rows_of("shapes-numbers")
    assert list(every[0]) == ["graph", "part", "true 1", "predicted 1", "true 2", "predicted 2"]
    assert [int(row["graph"]) for row in every] == list(range(1, 61))
    rows = [row for row in every if row["part"] == "test"]
    metrics = json.loads(Path("shapes-numbers/metrics.json").read_text())
    assert (metrics["trained_on"], metrics["tested_on"], metrics["targets"]) == (48, 12, ["1", "2"])
    for name in ("1", "2"):
        truth, said = (
            np.array([float(row[key]) for row in rows]) for key in (f"true {name}", f"predicted {name}")
        )
        mean = np.mean([float(row[f"true {name}"]) for row in every if row["part"] == "training"])
        scores = number_scores(truth, said, mean)
        assert metrics["scores"][name] == pytest.approx(scores, rel=1e-3)
        assert scores["r2"] > 0.5 and scores["mae"] < scores["baseline_mae"]
    assert "Network: default, trained on 48 graphs, tested on 12" in out
    assert "Scores are on 12 graphs that were held out and not trained on: 20 % of all" in out
    assert out.splitlines()[-1] == "Report: shapes-numbers/report.html"
    page = Path("shapes-numbers/report.html").read_text()
    assert "Learning curve" in page and "mean squared error of standardised numbers" in page

    shapes("others", 10, seed=1, labels=False)
    out, _ = done("regress", "others", "--model", "m", "--device", "cpu")
    told = rows_of("others-numbers")
    assert list(told[0]) == ["graph", "part", "predicted 1", "predicted 2"] and len(told) == 10
    assert "lowest prediction" in out and "10 graphs were given to the model m." in out
    done("regress", "shapes", "--model", "m", "--device", "cpu", "-o", "again")
    for before, after in zip(every, rows_of("again"), strict=True):
        assert float(before["predicted 1"]) == pytest.approx(float(after["predicted 1"]), abs=1e-3)
    done("regress", "shapes", "--target", 2, "--epochs", 1, *QUICK, "-o", "one", "--pool", "nopool")
    assert list(rows_of("one")[0]) == ["graph", "part", "true 2", "predicted 2"]
    assert json.loads(Path("one/metrics.json").read_text())["network"] == "the paper's, nopool"

    assert "has no number '3' of graphs; there are '1', '2'." in refused(
        "regress", "shapes", "--target", 3, "-o", "x"
    )
    assert "--smiles names a column of a table" in refused("regress", "shapes", "--smiles", "s", "-o", "x")
    assert "has no SHAPES_graph_attributes.txt" in refused("regress", "others", "-o", "x")
    said = refused("classify", "shapes", "--model", "m", "-o", "x")
    assert "is a model of numbers of graphs: use it with softcut regress" in said
    numbers = Path("shapes/SHAPES_graph_attributes.txt")
    numbers.write_text("1, 2\n")
    assert "must have a line for each of the 60 graphs, got 1." in refused("regress", "shapes", "-o", "x")


def test_molecules_of_a_table(done, refused, chains):
    chains()
    out, err = done("regress", "chains.csv", "--target", "atoms", "--epochs", 30, *QUICK, "--model-out", "m")
    assert "chains.csv: 48 molecules of column 'smiles'" in err and "to predict: 'atoms'" in err
    rows = rows_of("chains-numbers")
    assert (
        list(rows[0]) == ["graph", "smiles", "part", "true atoms", "predicted atoms"]
        and rows[1]["smiles"] == "CCO"
    )
    assert json.loads(Path("chains-numbers/metrics.json").read_text())["scores"]["atoms"]["r2"] > 0.5
    assert GraphRegression.load("m").feature_names_in_.tolist() == ["C", "N", "O", "hydrogens", "charge"]
    page = Path("chains-numbers/report.html").read_text()
    assert "<h1>chains: atoms</h1>" in page and "CCO" in page

    # Other molecules: the order of columns and rows is theirs, elements are known by name, numbers may be missing.
    Path("new.csv").write_text("atoms,SMILES\n3,OCC\n,CO\n9,C(C\n4,CCCN\n")
    out, err = done("regress", "new.csv", "--model", "m", "--device", "cpu")
    told = rows_of("new-numbers")
    assert [(row["graph"], row["smiles"], row["true atoms"]) for row in told] == [
        *(("1", "OCC", "3.0"), ("2", "CO", ""), ("4", "CCCN", "4.0")),
    ]
    same = {row["smiles"]: row["predicted atoms"] for row in rows}
    assert float(told[0]["predicted atoms"]) == pytest.approx(float(same["CCO"]), abs=1e-3)
    assert "1 row left out: rdkit cannot read 'C(C' (row 3)" in err and "Scores are on 2 graphs" in out
    Path("strange.csv").write_text("smiles\nCCBr\n")
    assert "'CCBr' has the element Br, which no training molecule had" in refused(
        "regress", "strange.csv", "--model", "m"
    )
    Path("folder").mkdir()
    assert "was trained on a table of molecules" in refused("regress", "folder", "--model", "m")


def test_what_cannot_be_read_is_said(done, refused, chains, shapes):
    chains()
    assert "name the one to predict with --target: 'atoms', 'ends'." in refused("regress", "chains.csv")
    said = refused("regress", "chains.csv", "--smiles", "nothing")
    assert "no column of text 'nothing'; name the column of SMILES with --smiles: 'name', 'smiles'" in said
    assert "nowhere is neither a folder with graphs nor a table" in refused("regress", "nowhere")
    chains("few.csv", count=1)
    assert "few.csv holds 1 graph: too few" in refused("regress", "few.csv", "--target", "atoms")
    Path("same.csv").write_text("smiles,y\n" + "CO,5\n" * 20)
    assert "same.csv: 'y' is 5 for all graphs, so there is nothing to learn." in refused(
        "regress", "same.csv"
    )
    shapes("shapes", 20, numbers=True)
    done("regress", "shapes", "--epochs", 1, *QUICK, "--model-out", "m", "--no-report")
    assert not Path("shapes-numbers/report.html").exists()
    assert "was trained on a folder: name a folder" in refused("regress", "chains.csv", "--model", "m")
    rings = GraphRegression(max_iter=1, n_init=1, device="cpu")
    rings.fit([np.ones((3, 3)) - np.eye(3)] * 20, np.arange(20.0)).save("mine")
    assert "mine was not trained by softcut regress" in refused(
        "regress", "shapes", "--model", "mine", "-o", "x"
    )
