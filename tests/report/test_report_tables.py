"""Tables of cells: what stands in them, what is bold, and how numbers are shortened."""

from softcut.report.tables import (
    Cell,
    Table,
    cell_table,
    mean_and_deviation,
    number_table,
    pivot,
    to_markdown,
)


def recorded(method: str, dataset: str, mean: float, **more: object) -> dict:
    told = {"metric": "acc", "std": 0.0125, "n": 5, "paper_mean": None, "paper_std": None, "seconds": 1.25}
    return {"method": method, "dataset": dataset, "mean": mean, **told, **more}


def test_cells_one_below_the_other():
    cells = [
        recorded("a", "cora", 0.71239, paper_mean=0.5, note="a fresh draw"),
        recorded("b", "cora", 0.5, std=None, note="a fresh draw"),
    ]
    table = cell_table(cells, "all")
    first, second = ([cell.text if isinstance(cell, Cell) else cell for cell in row] for row in table.rows)
    assert first == ["cora", "a", "acc", "0.712 ± 0.013", "5", "0.500", "1.2"]
    assert second == ["cora", "b", "acc", "0.500", "5", "-", "1.2"]
    assert (table.caption, table.heads, table.notes) == ("all", 3, ["cora is a fresh draw."])
    assert table.numbers == {"measured", "runs", "paper", "seconds"}
    assert mean_and_deviation(0.25, 0.125, 1) == "0.2 ± 0.1"
    assert mean_and_deviation(None, 1.0) == "-"


def test_the_highest_of_a_column_is_bold():
    table = pivot([recorded("a", "x", 0.5), recorded("b", "x", 0.75), recorded("a", "y", 0.25)])
    assert table.columns == ["method", "x", "y"]
    assert [[cell.strong for cell in row[1:]] for row in table.rows] == [[False, True], [True, False]]
    assert table.rows[1][2].text == "-"
    assert to_markdown(table).splitlines()[1:3] == [
        "|---|---|---|",
        "| a | 0.500 ± 0.013 | **0.250 ± 0.013** |",
    ]


def test_numbers_are_shortened_to_four_digits():
    (row,) = number_table(["a"] * 6, [["word", 1234567, 3.14159, None, True, False]]).rows
    assert row[0] == "word"
    assert [cell.text for cell in row[1:]] == ["1,234,567", "3.142", "-", "yes", "no"]
    assert Table(["a"], []).numbers == set() and Table(["a"], []).heads == 1


def test_a_cell_says_what_it_is_compared_with():
    cell = Cell("0.5", kind="better", paper="0.4", test="p = 0.01", note="3 folds", strong=True)
    assert (cell.below, cell.mark, cell.classes) == ("paper 0.4, p = 0.01", "▲", "number better")
    assert cell.markdown == "**0.5** (0.4), 3 folds"
    assert Cell("0.5", paper="0.4").below == "paper 0.4"
    assert Cell("0.5", below="own", paper="0.4").below == "own"
    assert (Cell("a", number=False).classes, Cell("a", swatch="#fff").classes) == ("words", "mark")
    assert (Cell("a").shade, Cell("a").strong, Cell("a").markdown, Cell("a").mark) == (0.0, False, "a", "")
