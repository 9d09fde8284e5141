"""What the options of ``softcut cluster`` mean, and what it says before the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softcut.cli.console import err
from softcut.errors import ParameterError

if TYPE_CHECKING:  # loads numpy
    from softcut.graph import Graph


def cluster_counts(text: str) -> int | range | str:
    """What ``-k`` means: a number, a range with both ends, or "auto"."""
    if text == "auto":
        return text
    what = "a whole number, a range such as 2:20, or 'auto'"
    low, *high = (whole_number("--clusters", part, what, text) for part in text.split(":", 1))
    if low < 1 and not high:
        raise ParameterError(
            f"--clusters must be a whole number of at least 1, a range, or 'auto', got {text}."
        )
    return range(low, high[0] + 1) if high else low


def scale_of(text: str | None) -> str | float | None:
    """What ``--scale`` means: a word, or a resolution."""
    if text is None or text in ("coarse", "fine"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"--scale must be 'coarse', 'fine' or a number, got {text!r}.") from None


def refuse_with_paper(n_clusters: str, given: dict[str, Any]) -> None:
    """One sentence for what the paper's model does not do."""
    if n_clusters == "auto":
        raise ParameterError("--paper needs a number of clusters, or a range such as 2:12: give it with -k.")
    for name, value in given.items():
        if value is not None:
            option = name.replace("_", "-")
            raise ParameterError(f"--{option} has no effect with --paper; leave it out.")


def pattern_of(text: str, n_clusters: str) -> str:
    """What ``--pattern`` means; clusters of any pattern are found for a number of them only."""
    if text == "any" and n_clusters == "auto":
        raise ParameterError(
            "--pattern any needs a number of clusters, or a range such as 2:12: give it with -k."
        )
    return text


def earlier_run(path: Path, n_clusters: str) -> Any:
    """What ``--start`` names: a saved model, or the path of a labels.csv."""
    from softcut.clustering import GraphClustering
    from softcut.io.model_files import model_file

    if n_clusters != "auto":
        raise ParameterError("--start keeps the scale of the earlier clusters: leave --clusters out.")
    if not path.is_file() and not model_file(path).is_file():
        raise ParameterError(
            f"--start {path} does not exist: name the labels.csv of an earlier run, or a model."
        )
    if path.suffix.lower() == ".safetensors" or (not path.is_file() and model_file(path).is_file()):
        return GraphClustering.load(path)
    return path


def tell_compiling(graph: Graph, estimator: Any, paper: bool) -> None:
    """One line before the first use of the compiled engine, which takes a while once for a machine."""
    by_edges = graph.num_graphs == 1 and not paper
    by_edges &= (
        graph.x is None or estimator.use == "edges" or (bool(graph.neighbors) and estimator.use is None)
    )
    if not by_edges:
        return
    from softcut.communities.compiled import is_cached
    from softcut.communities.moves import optimise

    if not is_cached(optimise):
        err.print(
            "compiling the search for communities, once for this machine: some 10 seconds", markup=False
        )


def limit_of(text: str) -> tuple[str, int]:
    """The argument and its new limit, of ``--limit``."""
    from softcut.clustering.arguments import LIMITS

    name, _, value = text.replace("-", "_").partition("=")
    if name not in LIMITS or not value:
        raise ParameterError(f"--limit {text} must be NAME=NUMBER, with one of {', '.join(LIMITS)}.")
    return name, whole_number("--limit", value, "NAME=NUMBER", text)


def whole_number(option: str, text: str, what: str, given: str) -> int:
    """A part of what was given for an option, as a number; `what` says what may be given."""
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"{option} must be {what}, got {given!r}.") from None
