"""The errors softcut raises: one clear sentence naming the argument, what was wrong and what to do.

Every kind is a :class:`SoftcutError`; the command line prints the sentence and exits with code 2.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError

__all__ = [
    "DataError",
    "DependencyError",
    "FileFormatError",
    "GraphError",
    "ModelFileError",
    "NotFittedError",
    "ParameterError",
    "SoftcutError",
    "require",
]


class SoftcutError(Exception):
    """Base class of every error softcut raises on purpose.

    >>> from softcut import SoftcutError, Graph
    >>> try:
    ...     Graph.from_edges([[0, 1], [1, 2]], edge_weight=[1.0, -1.0])
    ... except SoftcutError as error:
    ...     print("negative" in str(error))
    True
    """


class GraphError(SoftcutError, ValueError):
    """A graph that cannot be clustered: negative weights, mismatched lengths, no nodes, ..."""


class FileFormatError(SoftcutError, ValueError):
    """A file that cannot be read; the sentence names the file and, for text files, the line."""


class ParameterError(SoftcutError, ValueError):
    """An argument outside its range or an unknown name; the sentence lists what is valid."""


class DataError(SoftcutError):
    """A data set that is absent, cannot be downloaded, or fails its checksum."""


class DependencyError(SoftcutError, ImportError):
    """An optional package that a feature needs is not installed."""


class ModelFileError(SoftcutError, ValueError):
    """A saved model that cannot be read."""


class NotFittedError(SoftcutError, _SklearnNotFittedError):
    """A method that needs a fitted estimator was called before ``fit``."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say in one sentence how to get it.

    >>> from softcut.errors import require
    >>> require("math", "pyg", "an example").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"{purpose} needs the package '{module.split('.')[0]}': run pip install 'softcut[{extra}]' "
            f"(in a clone of the source: pip install -e '.[{extra}]')."
        ) from error
