"""Kinds of feature columns, decided by their values."""

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.tables.kinds import CATEGORY, NUMBER, WORD, kinds_of_columns, looks_like_words
from softcut.tables.scaling import centre_and_scale, scaled_rows

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
        (beside(AGE, COUNTS[:, :10]), "n" + "w" * 10),
        (beside(AGE * (np.arange(N) > 2), WORDS), "w" * 31),  # 0 in one of twenty rows: a count like others
        (beside(AGE * (np.arange(N) > 1), WORDS), "n" + "w" * 30),
        (beside(9 + np.arange(N) % 3, COUNTS), "w" * 31),  # ten times as large as the others
        (beside(10 + np.arange(N) % 3, COUNTS), "n" + "w" * 30),
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


@pytest.mark.parametrize(("values", "kind"), [(1000, CATEGORY), (1001, WORD)])
def test_a_category_has_at_most_1000_values(values, kind):
    x = beside(1000.5 + np.arange(values), np.eye(values))
    assert kinds_of_columns(sp.csc_array(x)).tolist() == [NUMBER, *[kind] * values]


def test_a_matrix_that_is_half_full_holds_words():
    half = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert looks_like_words(half) and not looks_like_words(half + np.eye(2)[[1, 0]])
    assert not looks_like_words(-half) and looks_like_words(0 * half)


def test_columns_are_brought_to_one_scale():
    rng = np.random.default_rng(1)
    wild, category = rng.standard_normal(50), np.eye(3)[rng.integers(3, size=50)]
    wild[:2] = 1e3, -1e3
    constant = 7.0 + 1e-5 * rng.random(50)  # but for a millionth
    close = 7.0 + 1e-4 * rng.random(50)
    x = beside(wild, constant, close, category)
    kinds = np.array([NUMBER, NUMBER, NUMBER, *[CATEGORY] * 3])
    low, middle, high = np.quantile(wild, [0.25, 0.5, 0.75])
    drawn_in = np.clip(wild, middle - 6 * (high - low), middle + 6 * (high - low))
    centre, factor = centre_and_scale(x, kinds)
    np.testing.assert_allclose(centre, [drawn_in.mean(), constant.mean(), close.mean(), *category.mean(0)])
    together = np.sqrt(category.var(0).sum())  # one variance for all values
    np.testing.assert_allclose(factor, [1 / drawn_in.std(), 0, 1 / close.std(), *[1 / together] * 3])
    rows = scaled_rows(x, kinds)
    assert (rows[0, 0], rows[1, 0], np.abs(rows[2:]).max() < 6) == (6, -6, True)
    np.testing.assert_allclose(rows[2:, 0], (wild[2:] - drawn_in.mean()) / drawn_in.std())
    # Words alone are rows of length 1, without those that all have alike.
    words = np.array([[3.0, 4.0, 1.0], [0.0, 0.0, 1.0]])
    scaled = scaled_rows(words, np.full(3, WORD))
    np.testing.assert_allclose(scaled.toarray(), [[0.6, 0.8, 0], [0, 0, 0]])


def test_nothing_to_decide():
    assert kinds_of_columns(np.zeros((0, 3))).tolist() == [WORD] * 3
    assert kinds_of_columns(np.zeros((5, 0))).tolist() == []
    assert kinds_of_columns(np.zeros((5, 2))).tolist() == [WORD] * 2
