"""Tables of docs/unknown-numbers.md from made-up results."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools import community_tables as tables
from tools.results import NotMeasuredError


def put(folder: Path, name: str, value: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def fit(score: float, best: float, verdict: str = "clear") -> dict[str, Any]:
    return {"score": score, "best": best, "clusters": 4, "verdict": verdict}


def test_unknown_numbers_with_means_and_what_is_behind(tmp_path: Path) -> None:
    rows = [
        {"graph": "a_b", "labels": 3, "leiden": {"score": 0.5, "clusters": 7}, "by_edges": fit(0.4, 0.6)},
        {
            "graph": "cora",
            "labels": 7,
            "leiden": {"score": 0.3, "clusters": 9},
            "by_edges": fit(0.5, 0.5, "weak"),
        },
    ]
    rows[0]["both"], rows[1]["both"] = None, fit(0.0, 0.7, "none")
    rows[0]["before_edges"] = {"score": 0.2}
    put(tmp_path, "unknown_numbers", {"rows": rows})
    text = tables.unknown_numbers(tmp_path)
    assert "| a b | 3 | .500 | .400 | .600 | .200 | - | - | - | 7 / 4 | clear |" in text
    assert "| Cora | 7 | .300 | .500 | .500 | - | .000 | .700 | - | 9 / 4 / 4 | weak / none |" in text
    assert "| mean |  | .400 | .450 | .550 | .200 | .000 | .700 | - |" in text
    said = tables.unknown_numbers_said(tmp_path)
    assert "by edges alone: a b (.400 beside .500); with features: Cora (.000 beside .300)." in said
    assert said.endswith("fits best: none, and none.")


def test_test_families_are_those_of_the_last_digest(tmp_path: Path) -> None:
    def row(family: str, strength: float, score: float, verdict: str, planted: list[int]) -> dict[str, Any]:
        found: dict[str, Any] = {"between": [0.41]} if planted else {}
        found |= {"softcut": fit(score, score, verdict), "leiden": {"score": 0.5}}
        return {"family": family, "strength": strength, "planted": planted, **found}

    old = {"rows": [row("LFR", 0.1, 0.0, "none", [3])]}
    new = [
        row("LFR", 0.3, 0.8, "clear", [3]),
        row("LFR", 0.3, 1.0, "weak", [3]),
        row("none, trees", 0, 0, "none", []),
    ]
    put(tmp_path, "unknown_numbers_test", {"digests": {"b": old, "a": {"rows": new}}})
    text = tables.unknown_numbers_test(tmp_path)
    assert "| LFR, mixing .3 (.41) | 2 | .500 | .900 | .900 | - | 1 weak, 1 clear |" in text
    assert "| none, trees | 1 | - | - | - | - | 1 none |" in text and "mixing .1" not in text


def test_verdicts_of_known_and_random_graphs(tmp_path: Path) -> None:
    def row(name: str, deviations: float, verdict: str, nodes: int = 30) -> dict[str, Any]:
        return {
            "graph": name,
            "nodes": nodes,
            "deviations": deviations,
            "surplus": 0.1234,
            "verdict": verdict,
        }

    known = [
        row("karate", 7.25, "clear"),
        row("people, order 1", 20, "clear"),
        row("people, order 2", 22, "weak"),
    ]
    random = [row("trees, 10 nodes", 1, "none", 10), row("trees, 5000 nodes", 4.5, "weak", 5000)]
    put(
        tmp_path,
        "verdicts",
        {"groups": [{"group": "known", "rows": known}, {"group": "random", "rows": random}]},
    )
    text = tables.verdicts(tmp_path)
    assert "| karate | 30 | 7.2 | .123 | clear |" in text
    assert "| people | 30 | 20.0 to 22.0 | .123 | 1 weak, 1 clear |" in text
    text = tables.false_verdicts(tmp_path)
    assert "| random graphs: trees | 2 | 10 to 5,000 | 1 none, 1 weak | 4.5 (.123) |" in text


def test_speed_beside_igraph(tmp_path: Path) -> None:
    one = {"seconds": 0.5, "mib": 10.0}
    own = {"igraph": one, "one scale": {**one, "times": 1.04}, "K = 20": {**one, "times": 31.2}}
    first = [{"first fit": 9.26, "commit": "1234567", "date": "2026-01-01"}]
    put(
        tmp_path, "communities", {"first": first, "rows": [{"graph": "mdual", "edges": 5132, "methods": own}]}
    )
    text = tables.speed(tmp_path)
    assert "| mdual | 5,132 | 0.500 | 1.0 | - | 31 | - | - | - | 10 / 10 / - / 10 |" in text
    assert "| first fit | 9.3 |" in tables.first_call(tmp_path) and "commit" not in tables.first_call(
        tmp_path
    )


def test_changing_and_renumbered_graphs(tmp_path: Path) -> None:
    shares = {"start": 0.01, "without": 0.2, "leiden": 0.1, "behind_fresh": -0.0012}
    changing = [{"graph": "yeast", "edges": 8757, "added": "alike", **shares}]
    renumbered = [{"graph": "a", "ari": 1.0, "orders": 8}, {"graph": "b_c", "ari": 0.9, "orders": 8}]
    put(tmp_path, "changing_graphs", {"changing": changing, "renumbered": renumbered})
    assert "| yeast | 8,757 | alike | .0100 | .2000 | .1000 | .10 | -.0012 |" in tables.changing(tmp_path)
    last = tables.changing(tmp_path).splitlines()[-1]
    assert last.startswith("| mean;") and last.endswith("| .0100 | .2000 | .1000 | .10 | -.0012 |")
    said = tables.renumbered(tmp_path)
    assert "In 8 other orders of their nodes 1 of 2 graphs" in said and said.endswith("the others: b c .900.")


def test_what_is_not_measured_names_its_command(tmp_path: Path) -> None:
    for table in tables.COMMUNITY_TABLES.values():
        with pytest.raises(NotMeasuredError, match=r"run python benchmarks/\w+\.py"):
            table(tmp_path)
