"""Numbers and names as people read them."""

import pytest

from softcut.tables.arrays import listed, shown
from softcut.tables.display_text import percent, readable, shortened


def test_display_text():
    assert readable(float("nan")) == percent(float("nan")) == "-"
    assert readable(1e-9) == "1.00e-09"  # nobody counts nine zeros
    assert readable(-62_534.0, 4) == "-62,530"
    assert shortened("\x1b[2Jred\nname", 20) == " [2Jred name"  # nothing that steers a terminal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-6, "0.000001"),
        (9.99e-7, "9.99e-07"),
        (999.4e12, "999,000,000,000,000"),
        (1e15, "1.00e+15"),
        (9999.0, "9999"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (10_049.0, "10,000"),
        (-10_051.0, "-10,100"),
        (0.5, "0.5"),
        (99.96, "100"),
        (0.09996, "0.1"),
    ],
)
def test_numbers_at_the_limits_of_their_form(value, text):
    assert readable(value) == text


@pytest.mark.parametrize(
    ("value", "apart", "text"),
    [
        (62_534.0, 1200.0, "62,500"),
        (62_534.0, 10.0, "62,534"),
        (1.23456, 0.001, "1.2346"),
        (1.23456, 30.0, "1.2"),
        (-0.002, 6.0, "0"),
        (1.23456, 0.0, "1.23"),
    ],
)
def test_a_difference_says_how_many_digits_there_are(value, apart, text):
    assert readable(value, apart=apart) == text


def test_shares_in_percent():
    shares = {
        0.0: "0 %",
        0.004: "<1 %",
        0.006: "1 %",
        0.5: "50 %",
        0.994: "99 %",
        0.996: ">99 %",
        1.0: "100 %",
        1.2: "120 %",
    }
    assert {share: percent(share) for share in shares} == shares


def test_long_texts_and_lists_are_cut():
    assert shown(" " + "a" * 60 + "\n") == repr("a" * 60) and shown("a" * 61) == repr("a" * 57 + "...")
    names = list("abcdefghi")
    assert listed(names[:8]) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"
    assert listed(names) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 1 more"
    assert listed(names, 2) == "'a', 'b' and 7 more"
