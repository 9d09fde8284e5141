"""Read the arrays of a Python pickle without running any of its code.

``pickle.load`` on a file from elsewhere can run anything. This reader resolves only the names that pickles of numpy
arrays, scipy CSR matrices, dictionaries and lists need (the files of Planetoid and Bench), each to an inert stand-in
defined here. The stand-ins become arrays afterwards, with all sizes and indices checked.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class _Dtype:
    """Stands for ``numpy.dtype``: remembers the type string and the byte order."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code
        self.order = "="

    def __setstate__(self, state: Any) -> None:
        self.order = str(state[1])

    def build(self) -> np.dtype[Any]:
        if not isinstance(self.code, str):
            raise pickle.UnpicklingError("unknown array type")
        dtype = np.dtype(self.code)
        if dtype.kind == "O":
            return dtype
        if dtype.kind not in "biuf":
            raise pickle.UnpicklingError(f"arrays of type {dtype} are not numbers")
        return dtype.newbyteorder(self.order)  # type: ignore[arg-type]


class _Array:
    """Stands for ``numpy.ndarray``: remembers shape, type and bytes."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def build(self) -> Any:
        _, shape, dtype, fortran, data = self.state
        if not isinstance(dtype, _Dtype):
            raise pickle.UnpicklingError("an array of an unknown type")
        if isinstance(data, str):  # written by Python 2
            data = data.encode("latin1")
        kind = dtype.build()
        if kind.kind == "O" and isinstance(data, list):
            return _objects(data, shape)
        if not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array without plain bytes")
        array = np.frombuffer(data, kind).reshape(shape, order="F" if fortran else "C")
        return array.astype(array.dtype.newbyteorder("="))  # a writable copy in native byte order


class _Csr(_Array):
    """Stands for ``scipy.sparse.csr_matrix``: its attributes arrive as a dictionary."""

    def build(self) -> sp.csr_matrix:
        data, indices, indptr = (self.state[key].build() for key in ("data", "indices", "indptr"))
        matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(map(int, self.state["_shape"])))
        matrix.check_format(full_check=True)
        return matrix


def _objects(values: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A list of arrays or matrices; anything else in it is refused."""
    if shape != (len(values),):
        raise pickle.UnpicklingError("an array of objects that is not a list")
    if not all(isinstance(value, _Array) for value in values):
        raise pickle.UnpicklingError("an array of objects that are neither arrays nor matrices")
    array = np.empty(shape, dtype=object)
    for i, value in enumerate(values):
        array[i] = value.build()
    return array


def _latin1(text: Any, encoding: Any) -> bytes:
    """Stands for ``_codecs.encode``, with which Python 3 writes bytes into old pickle protocols."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("bytes in an unknown encoding")
    return text.encode("latin1")


_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUILTINS = ("__builtin__", "builtins")
_CSR_MODULES = ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse")

_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    **{(module, "_reconstruct"): lambda *_: _Array() for module in _MULTIARRAY},
    **{(module, "csr_matrix"): _Csr for module in _CSR_MODULES},
    ("_codecs", "encode"): _latin1,
    ("collections", "defaultdict"): lambda *_: {},
    **{(module, "list"): list for module in _BUILTINS},
    **{(module, "dict"): lambda *_: {} for module in _BUILTINS},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not plain data") from None


def read_plain_pickle(content: bytes) -> Any:
    """The array, CSR matrix, dictionary, list, number or string that a pickle holds.

    Raises :class:`pickle.UnpicklingError` for anything else, before any code of the file could run.
    """
    try:
        value = _PlainUnpickler(io.BytesIO(content), encoding="latin1").load()
        return value.build() if isinstance(value, _Array) else value
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged file fails in many ways; none of them is worth a traceback
        raise pickle.UnpicklingError(f"it is damaged ({type(error).__name__}: {error})") from error
