"""Trials beside table 2: a method with other settings, named by them.

``mincut+lr=0.002+batch=8`` is MinCutPool with another learning rate and batch. A trial is trained, resumed, recorded
and merged as a method of the table is, into files of its own (``table2_trials.json``). What can be changed:

- ``batch``, ``lr``, ``epochs``, ``patience``, ``l2``, ``hidden``: numbers of
  :class:`~softcut.learning.ClassifierSettings`;
- ``k=20,10``: clusters at each level;
- ``stop_on``: loss, task (cross entropy alone) or error;
- ``degree``: how the degree is given: ``seen`` (one-hot of the degrees that occur), ``log`` (the z-scored logarithm of
  1 + degree) or a number (one-hot, higher degrees count as it);
- any option of the pooler, such as ``ortho_weight=4`` or ``temperature=0.1``.

``mincut+table`` changes nothing: the settings of the table, with what is recorded of a trial.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection
from softcut.learning.experiment import METHODS as NETWORKS
from softcut.learning.experiment import ClassifierSettings
from softcut.nn.pool import pool_options

__all__ = ["UNCHANGED", "Trial", "is_trial", "read_trial", "with_degree"]

UNCHANGED = "table"
_NUMBERS = {"batch": int, "lr": float, "epochs": int, "patience": int, "l2": float, "hidden": int}


@dataclass(frozen=True)
class Trial:
    """A method, and what is changed for it."""

    method: str
    changes: dict[str, str]

    @property
    def degree(self) -> str | None:
        """How the degree is given; None: as in the table."""
        return self.changes.get("degree")

    def settings(self, base: ClassifierSettings) -> ClassifierSettings:
        """The settings of the table with the changes."""
        changed: dict[str, Any] = {}
        options = dict(base.pool_args)
        for name, text in self.changes.items():
            if name in _NUMBERS:
                changed[name] = _number(_NUMBERS[name], name, text)
            elif name == "k":
                changed["k"] = tuple(_number(int, name, part) for part in text.split(","))
            elif name == "stop_on":
                changed["stop_on"] = text
            elif name != "degree":
                options[name] = _option(text)
        return replace(base, **changed, pool_args=options)


def is_trial(method: str) -> bool:
    """Whether a name is that of a trial."""
    return "+" in method


def read_trial(name: str) -> Trial:
    """A trial by its name.

    >>> read_trial("mincut+lr=0.002+ortho_weight=4").changes
    {'lr': '0.002', 'ortho_weight': '4'}
    """
    method, _, rest = name.partition("+")
    if method not in NETWORKS:
        raise ParameterError(
            f"method {name!r} must begin with a network ({', '.join(NETWORKS)}), not {method!r}."
        )
    if rest == UNCHANGED:
        return Trial(method, {})
    known = (*_NUMBERS, "k", "stop_on", "degree")
    options = [o for o in pool_options(NETWORKS[method]) if o not in ("in_channels", *known)]
    changes: dict[str, str] = {}
    for part in rest.split("+"):
        key, given, value = part.partition("=")
        if key not in (*known, *options):
            valid = ", ".join((*known, *options))
            raise ParameterError(f"method {name!r} must change one of {valid}, not {key}.")
        if not given or not value or key in changes:
            raise ParameterError(f"method {name!r} must give {key} one value, as in {key}=VALUE.")
        changes[key] = value
    trial = Trial(method, changes)
    trial.settings(ClassifierSettings())  # values that cannot be are refused before anything is trained
    return trial


def _number(kind: Callable[[str], Any], name: str, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"{name} must be a number, not {text!r}.") from None


def _option(text: str) -> Any:
    """The value of a pooler's option: True, False, None, a number or a word."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return float(value) if type(value) is int else value


def with_degree(graphs: GraphCollection, how: str) -> GraphCollection:
    """The graphs with another form of the degree, which is the first feature of the TU data sets."""
    degree = graphs.degree
    if not graphs.index.shape[1] or not np.array_equal(graphs.index[:, 0], degree):
        raise ParameterError(
            f"degree must be left as it is for {graphs.name}: its first feature is not the degree."
        )
    old = int(degree.max(initial=0)) + 1
    if how == "log":
        logarithm = np.log1p(degree)
        scaled = (logarithm - logarithm.mean()) / (logarithm.std() or 1.0)
        value = np.column_stack([scaled, graphs.value]).astype(np.float32)
        # The logarithm goes to the numbers, which are the last features.
        index = graphs.index[:, 1:] - old
        return replace(graphs, index=index, value=value, num_features=graphs.num_features - old + 1)
    column: NDArray[Any]
    if how == "seen":
        _, column = np.unique(degree, return_inverse=True)
    else:
        highest = _number(int, "degree", how)
        if highest < 1:
            raise ParameterError(f"degree must be seen, log or at least 1, not {how}.")
        column = np.minimum(degree, highest)
    new = int(column.max(initial=0)) + 1
    index = np.column_stack([column, graphs.index[:, 1:] - old + new]).astype(np.int32)
    return replace(graphs, index=index, num_features=graphs.num_features - old + new)
