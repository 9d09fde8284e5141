"""Values as people write them, comments, standard input, limits of unpacking."""

import gzip
import io
import os
import sys
import time
import zipfile
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.reading import line_of, named_edges, quiet, write
from helpers.refusals import refuses

from softcut.errors import FileFormatError, ParameterError, SoftcutError
from softcut.io import read_features, read_graph, text_files


def test_decimal_commas_and_the_separator_line(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "sep=;\nsource;target;weight\na;b;2,5\nb;c;1\n"))
    assert named_edges(g) == {("a", "b", 2.5), ("b", "c", 1.0)}
    assert "decimal commas: '2,5' is 2.5" in line_of(g)
    g = quiet(write(tmp_path, "g.csv", "sep=|\r\na|b\r\nb|c\r\n"))
    assert g.node_names == ["a", "b", "c"]
    x = read_features(write(tmp_path, "x.csv", "id;a;b\nann;1,5;2\nbob;,25;3\n"))
    np.testing.assert_array_equal(x, [[1.5, 2], [0.25, 3]])
    # A comma beside a point means thousands: not for us to say.
    with pytest.raises(FileFormatError, match="line 2, column 1: the comma in '1,234' may mark"):
        read_features(write(tmp_path, "x.csv", "a;b\n1,234;2\n5.5;3\n"))
    # So it does in quotes, where commas separate the columns; three digits after a semicolon are decimals.
    thousands = 'source,target,weight\na,b,3\nb,c,"1,250"\n'
    with pytest.raises(FileFormatError, match="line 3: the comma in '1,250' may mark decimals or thousands"):
        read_graph(write(tmp_path, "g.csv", thousands))
    with pytest.raises(FileFormatError, match="line 2, column 2: the comma in '1,250' may mark"):
        read_features(write(tmp_path, "x.csv", 'id,a\nann,"1,250"\nbob,"2,000"\n'))
    commas = write(tmp_path, "x.csv", 'id,a\nann,"1,25"\nbob,"2,000"\n')
    assert read_features(commas).tolist() == [[1.25], [2]]
    g = quiet(write(tmp_path, "g.csv", "source;target;weight\na;b;1,250\nb;c;2,500\n"))
    assert named_edges(g) == {("a", "b", 1.25), ("b", "c", 2.5)}
    refuses(FileFormatError, "line 1: 'sep=' names '1'", read_graph, write(tmp_path, "g.csv", "sep=1\na;b\n"))


def test_quoted_new_lines(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", 'source,target\n"ann\nlee",bob\nbob,"c,y"\n'))
    assert g.node_names == ["ann\nlee", "bob", "c,y"]
    x = write(tmp_path, "x.csv", 'id,a\nbob,2\n"ann\nlee",1\n"c,y",3\n')
    np.testing.assert_array_equal(quiet(tmp_path / "g.csv", features=x).x, [[1], [2], [3]])
    # In the first row it must not hide the delimiter.
    for delimiter in ",;\t":
        text = '"ann\nlee",bob\nbob,cy\n'.replace(",", delimiter)
        assert quiet(write(tmp_path, "h.csv", text)).node_names == ["ann\nlee", "bob", "cy"]
        text = '"the\nid",a\nann,1\nbob,2\n'.replace(",", delimiter)
        np.testing.assert_array_equal(read_features(write(tmp_path, "y.csv", text)), [[1], [2]])
    # A quote in the middle of a name quotes nothing.
    inches = quiet(write(tmp_path, "h.csv", '5" disk,bob\nbob,cy\ncy,3" disk\n'))
    assert inches.num_nodes == 4
    with pytest.raises(FileFormatError, match="line 5: expected 2 columns"):
        read_graph(write(tmp_path, "h.csv", 'a,b\n"b\nx",c\nc,d\ne,f,g\n'))


def test_missing_values(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,a,b\np,1,NA\nq,2,4\nr,,8\n")
    refuses(FileFormatError, r"line 4, column 2 \('a'\): the value is missing", read_features, path)
    np.testing.assert_array_equal(read_features(path, missing="zero"), [[1, 0], [2, 4], [0, 8]])
    np.testing.assert_array_equal(read_features(path, missing="mean"), [[1, 6], [2, 4], [1.5, 8]])
    graph = write(tmp_path, "g.csv", "p,q\nq,r\n")
    g = quiet(graph, features=path, missing="mean")
    assert "2 missing values filled with the mean of the column" in line_of(g)
    full = write(tmp_path, "y.csv", "id,a,b\np,1,\nq,2,4\nr,3,8\n")
    g = quiet(graph, features=full, missing="drop")
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    assert g.feature_names == ["a"]
    assert "columns with missing values left out: 'b'" in line_of(g)
    rows = write(tmp_path, "z.csv", "id,a\np,1\nq,3\n")
    np.testing.assert_array_equal(quiet(graph, features=rows, missing="zero").x, [[1], [3], [0]])
    g = quiet(graph, features=rows, missing="mean")
    np.testing.assert_array_equal(g.x, [[1], [3], [2]])
    assert "1 node without a row" in line_of(g)
    refuses(FileFormatError, "every column has missing values", read_features, path, missing="drop")
    with pytest.raises(ParameterError, match="missing is 'none'"):
        read_features(path, missing="none")  # type: ignore[arg-type]


def test_text_is_a_category_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id,city,n\na,Rome,1\nb,Oslo,2\nc,Rome,3\n")
    np.testing.assert_array_equal(read_features(path), [[1], [2], [3]])  # too few rows to tell
    g = quiet(write(tmp_path, "g.csv", "a,b\nb,c\n"), features=path, categories=["city"])
    np.testing.assert_array_equal(g.x, [[0, 1, 1], [1, 0, 2], [0, 1, 3]])
    assert g.feature_names == ["city=Oslo", "city=Rome", "n"]
    assert "'id' id, 'city' category (2 values), 'n' number" in line_of(g)
    np.testing.assert_array_equal(read_features(path, categories=True, ids="id"), g.x)
    refuses(
        ParameterError,
        "categories names 'town', which is no column of",
        read_features,
        path,
        categories=["town"],
    )
    rows = "".join(f"{i},w{i}\n" for i in range(1001))
    with pytest.raises(FileFormatError, match=r"column 'word': 1001 different values.*drop=\['word'\]"):
        read_features(write(tmp_path, "y.csv", "id,word\n" + rows), categories=True, ids="id")
    with pytest.raises(FileFormatError, match=r"column 2: 1001 different values.*drop=\[1\]"):
        read_features(write(tmp_path, "y.csv", rows), categories=[1], ids=0)


def test_header_of_features(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "2019,2020\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_features(path, header=True), [[1, 2], [3, 4]])
    assert read_features(tmp_path / "x.csv").shape == (3, 2)
    graph = write(tmp_path, "g.csv", "0,1\n")
    assert quiet(graph, features=tmp_path / "x.csv", features_header=True).feature_names == ["2019", "2020"]
    text = "person,city\nann,Rome\nbob,Oslo\ncy,Rome\n"
    assert read_features(write(tmp_path, "y.csv", text), categories=["city"]).shape == (3, 2)


# ---------------------------------------------------------------------- comments


def test_lines_that_begin_with_a_hash_and_look_like_data(tmp_path: Path) -> None:
    g = quiet(write(tmp_path, "g.csv", "#python,#java\n#java,#go\n"))
    assert g.node_names == ["#python", "#java", "#go"]
    assert "2 lines that begin with '#' read as data" in line_of(g)
    assert quiet(write(tmp_path, "g.csv", "ann,#java\n#java,#go\n")).num_edges == 2
    path = write(tmp_path, "g.csv", "# a comment\nann,bob\nbob,cy\n#cy,dan\n")
    with pytest.warns(UserWarning, match="1 line that begins with '#', the first on line 4, might be data"):
        g = read_graph(path)
    assert g.num_edges == 2
    assert "1 line that begins with '#' skipped" in line_of(g)
    assert quiet(path, comments="#").num_edges == 2
    edges = write(tmp_path, "h.csv", "ann,bob\nbob,cy\n#cy,dan\n")
    assert quiet(edges, comments="").node_names == ["ann", "bob", "cy", "#cy", "dan"]
    quiet(write(tmp_path, "g.csv", "# Nodes: 3 Edges: 2\n# From,To by hand\n0,1\n# half, time\n1,2\n"))
    refuses(ParameterError, "comments is 'x'", read_graph, edges, comments="x")


# ---------------------------------------------------------------------- other sources


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    feed(b"a,b\nb,c\n")
    g = quiet("-")
    assert g.node_names == ["a", "b", "c"]
    assert line_of(g).startswith("standard input: edge list")
    feed(gzip.compress(b"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"))
    assert quiet("-", format="mtx").num_edges == 1
    feed(b"id,a\nc,3\na,1\nb,2\n")
    g = quiet(write(tmp_path, "g.csv", "a,b\nb,c\n"), features="-")
    np.testing.assert_array_equal(g.x, [[1], [2], [3]])
    feed(b"")
    refuses(FileFormatError, "standard input is empty", read_graph, "-")
    refuses(ParameterError, "cannot both be '-'", read_graph, "-", features="-")


def test_limits_of_unpacking(tmp_path: Path) -> None:
    bomb = tmp_path / "g.csv.gz"
    bomb.write_bytes(gzip.compress(b"0,1\n" * (17 * 2**20)))
    refuses(
        FileFormatError, "unpacks to more than 64 MiB: unpack it first, or pass max_bytes", read_graph, bomb
    )
    small = write(tmp_path, "h.csv.gz", "0,1\n" * 1000)
    refuses(FileFormatError, "unpacks to more than", read_graph, small, max_bytes=3999)
    assert quiet(small, max_bytes=4000).num_edges == 1
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(80 * 2**20))
    for read in (read_graph, read_features):
        refuses(FileFormatError, "unpacks to more than 64 MiB", read, tmp_path / "x.npz")
    np.savez_compressed(tmp_path / "ok.npz", x=np.zeros((100, 100)))
    refuses(FileFormatError, "unpacks", read_features, tmp_path / "ok.npz", max_bytes=1000)
    assert read_features(tmp_path / "ok.npz", max_bytes=10**6).shape == (100, 100)
    refuses(ParameterError, "max_bytes is 0", read_graph, small, max_bytes=0)


def test_true_and_false(tmp_path: Path) -> None:
    x = read_features(write(tmp_path, "x.csv", "id,ok,n\na,True,1\nb,false,2\nc,TRUE,3\n"))
    np.testing.assert_array_equal(x, [[1, 1], [0, 2], [1, 3]])


def test_pipes_are_read_once_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_WAIT", 0.3)
    pipe = tmp_path / "g.csv"
    os.mkfifo(pipe)
    refuses(FileFormatError, "g.csv is a pipe that nothing writes to", read_graph, pipe)
    for seconds in (0.0, 0.5):  # a slow writer is waited for
        writer = Thread(target=write_slowly, args=(pipe, seconds))
        writer.start()
        assert quiet(pipe).node_names == ["a", "b", "c"]
        writer.join()
    for kind in ("npy", "parquet", "h5ad"):
        refuses(SoftcutError, f"a {kind} file cannot be read from a pipe", read_graph, pipe, format=kind)
    refuses(FileFormatError, "/dev/zero is a device: pass a file", read_graph, "/dev/zero", format="edges")


def write_slowly(pipe: Path, seconds: float) -> None:
    with pipe.open("wb") as stream:
        time.sleep(seconds)
        stream.write(b"a,b\nb,c\n")


def test_other_names_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("-", "/dev/stdin", "/dev/fd/0"):
        monkeypatch.setattr(sys, "stdin", io.StringIO("a,b\nb,c\n"))
        assert quiet(name).num_nodes == 3
        monkeypatch.setattr(sys, "stdin", None)
        refuses(FileFormatError, "standard input is closed", read_graph, name)


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    Path(os.fsdecode(path)).write_text("0,1\n1,2\n")
    for given in (path, os.fsdecode(path), Path(os.fsdecode(path))):
        g = quiet(given)
        assert g.name == "caf\N{REPLACEMENT CHARACTER}"
        "; ".join([g.name, *g.notes]).encode()  # can be printed and written
    refuses(FileFormatError, "caf. does not exist", read_graph, path[:-4], format="edges")
    np.save(os.fsdecode(path).replace(".csv", ".npy"), np.array([[0, 1], [1, 2], [2, 3]]))
    assert quiet(path.replace(b".csv", b".npy")).num_edges == 3
    x = os.fsdecode(path).replace(".csv", ".txt")
    Path(x).write_text("1\n2\n3\n")
    "; ".join(quiet(path, features=x).notes).encode()
