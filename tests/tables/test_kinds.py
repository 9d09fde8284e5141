"""Kinds of feature columns, decided by their values."""

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.tables.kinds import CATEGORY, NUMBER, WORD, kinds_of_columns

RNG = np.random.default_rng(0)
N = 60
SALARY, AGE = 40e3 + 1e3 * RNG.standard_normal(N), RNG.integers(20, 65, N).astype(float)
CITY = np.eye(4)[np.arange(N) % 4]
DEPARTMENT = np.eye(3)[RNG.integers(3, size=N)]
WORDS = (RNG.random((N, 30)) < 0.2).astype(float)
COUNTS = RNG.poisson(0.4, (N, 30)).astype(float)
KINDS = {"n": NUMBER, "w": WORD, "a": CATEGORY, "b": CATEGORY + 1}


def beside(*blocks: np.ndarray) -> np.ndarray:
    return np.column_stack(blocks)


@pytest.mark.parametrize(
    ("x", "kinds"),
    [
        (beside(SALARY, AGE), "nn"),
        (beside(SALARY, AGE, CITY), "nnaaaa"),
        (beside(SALARY - SALARY.mean(), CITY), "naaaa"),
        (beside(CITY, AGE, DEPARTMENT), "aaaanbbb"),
        (beside(CITY, DEPARTMENT, AGE), "aaaabbbn"),
        (beside(CITY[:, :3], AGE), "nnnn"),  # rows without a value: flags
        (beside(CITY, SALARY, CITY[:, 0]), "aaaann"),  # a flag
        (beside(np.ones(N), SALARY, CITY), "nnaaaa"),  # a constant is nothing else
        (beside(SALARY, WORDS), "n" + "w" * 30),
        (beside(AGE, COUNTS), "n" + "w" * 30),
        (beside(COUNTS, AGE / 7), "w" * 30 + "n"),
        (beside(AGE, COUNTS[:, :9]), "n" * 10),  # few counts beside numbers
        (beside(AGE, COUNTS + 1), "n" * 31),
        (WORDS, "w" * 30),
        (CITY, "wwww"),  # nothing but flags: words, as a matrix of one kind
        (beside(WORDS, np.ones(N)), "w" * 31),
        (beside(1 + COUNTS[:, :5], COUNTS), "w" * 35),  # counts beside counts are one kind
        (beside(COUNTS[:, :5] + 40, COUNTS), "n" * 5 + "w" * 30),  # much larger ones are not
        (beside(WORDS * RNG.random((N, 30)), RNG.random((N, 2)) + 0.1), "w" * 32),  # shares beside shares
        (beside(WORDS, RNG.random((N, 2)) + 0.1), "w" * 30 + "nn"),
        (RNG.random((N, 3)), "nnn"),
        (SALARY[:, None], "n"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_kinds_of_columns(x, kinds, form):
    assert kinds_of_columns(form(x)).tolist() == [KINDS[kind] for kind in kinds]


def test_nothing_to_decide():
    assert kinds_of_columns(np.zeros((0, 3))).tolist() == [WORD] * 3
    assert kinds_of_columns(np.zeros((5, 0))).tolist() == []
    assert kinds_of_columns(np.zeros((5, 2))).tolist() == [WORD] * 2
