"""Tables of people through the command line: options of columns, and a model applied to another table."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from softcut.datasets import attributed_communities
from softcut.metrics import nmi

QUICK = ("--n-init", 4, "--no-plot", "--overwrite")
PLANTED = attributed_communities(300, 3, 8, 0, edge_signal=0.7, seed=1)
Y = PLANTED.y


@pytest.fixture
def tables(tmp_path):
    """edges.csv, and people.csv with the plant in salary and age beside a city, a day and a sentence."""
    rng = np.random.default_rng(0)
    names = [f"p{i}" for i in range(300)]
    people = pd.DataFrame({
        "name": names,
        "salary": 40e3 + 8e3 * Y + 1e3 * rng.standard_normal(300),
        "age": 30.0 + 9 * (Y == 1) + rng.standard_normal(300),
        "city": rng.choice(["Oslo", "Rome", "Paris", "Lima"], 300),
        "joined": [f"{1 + i % 28}/{1 + i % 12}/2020" for i in range(300)],
        "about": [f"number {i} likes graphs" for i in range(300)],
    })  # fmt: skip
    ends = sp.coo_array(sp.triu(PLANTED.adjacency))
    edges = pd.DataFrame({"source": [names[i] for i in ends.row], "target": [names[i] for i in ends.col]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    people.to_csv(tmp_path / "people.csv", index=False)
    return people


def labels(folder):
    with Path(folder, "labels.csv").open(newline="") as file:
        return {row["node"]: int(row["cluster"]) for row in csv.DictReader(file)}


def found(folder):
    made = labels(folder)
    return nmi(Y, np.array([made[f"p{i}"] for i in range(300)]))


def test_an_irrelevant_text_column_takes_nothing(done, tables):
    words = ("cluster", "edges.csv", "-f", "people.csv", "-k", 3, *QUICK)
    _, err = done(*words, "--columns", "salary,age", "-o", "alone")
    assert "'salary' number, 'age' number, 'city' left out" in err
    _, err = done(*words, "-o", "all", "--dates", "joined=%d/%m/%Y")
    assert err.count("'city' category (4 values), 'joined' date, 'about' text (left out)") == 1
    assert found("alone") > 0.9
    assert abs(found("all") - found("alone")) < 0.05


def test_columns_are_named_by_options(done, refused, tables):
    words = ("cluster", "edges.csv", "-f", "people.csv", "-k", 3, *QUICK, "-o", "o")
    said = refused(*words, "--dates", "joined", "--categories", "town")
    assert "people.csv has 2 problems" not in said, "28 days tell days from months"
    assert "--categories names 'town', which is no column of people.csv; choose from 'name', 'salary'" in said
    _, err = done(*words, "--dates", "joined", "--drop", "about", "--drop", "age", "--categories", "city")
    assert "'age' left out, 'city' category (4 values), 'joined' date, 'about' left out" in err


def test_a_model_reads_another_table_as_its_own(done, refused, tables):
    done(
        "cluster",
        "edges.csv",
        "-f",
        "people.csv",
        "-k",
        3,
        *QUICK,
        "-o",
        "o",
        "--drop",
        "joined",
        "--model-out",
        "m",
    )
    moved = tables.replace({"city": {"Oslo": "Rome", "Lima": "Bonn"}}).assign(shoe=42)
    moved[["city", "shoe", "age", "name", "salary"]].sample(frac=1, random_state=0).to_csv(
        "other.csv", index=False
    )
    _, err = done("predict", "m", "edges.csv", "-f", "other.csv", "-o", "p", "--no-plot")
    assert "'city' category (4 values), 'joined' left out" in err
    assert "columns that the fit did not have ignored: 'shoe'" in err
    assert err.count("values that the fit did not have taken for none: 'Bonn' of 'city'") == 1
    first, second = labels("o"), labels("p")
    assert np.mean([first[name] == second[name] for name in first]) > 0.95
    words = ("predict", "m", "edges.csv", "--no-plot", "-o", "q", "-f")
    moved.drop(columns="age").to_csv("short.csv", index=False)
    assert "short.csv: the columns are not those of the fit (missing: 'age'; not known: 'shoe')" in refused(
        *words, "short.csv"
    )
    assert "--drop has no effect" in refused(*words, "other.csv", "--drop", "shoe")
    moved.assign(age=[None, *moved.age[1:]]).to_csv("gap.csv", index=False)
    assert "the value is missing; fill it in, or pass --missing zero or 'mean'" in refused(*words, "gap.csv")
    done(*words, "gap.csv", "--missing", "mean")
