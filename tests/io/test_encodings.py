"""Text that is not UTF-8: read where its bytes say what it is, named where they do not."""

from pathlib import Path

import pytest
from helpers.reading import line_of, named_edges, quiet, write

from softcut.errors import FileFormatError, ParameterError
from softcut.io import read_features, read_graph
from softcut.io.encodings import as_utf8

ROWS = "source,target\nZoë,Bjørn\nBjørn,it’s me\n"
EDGES = {("Bjørn", "Zoë", 1.0), ("Bjørn", "it’s me", 1.0)}


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-32", "utf-16-le", "utf-16-be"]
)
def test_an_encoding_is_found_and_said(tmp_path: Path, encoding: str) -> None:
    g = quiet(write(tmp_path, "g.csv", ROWS.encode(encoding)))
    assert named_edges(g) == EDGES
    said = [note.values["encoding"] for note in g.notes if note.code == "encoding"]
    assert said == ([] if encoding.startswith("utf-8") else [encoding])
    assert ("encoding names another" in line_of(g)) == bool(said)


def test_an_encoding_that_was_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "g.csv", "источник,цель\nАнна,Борис\nБорис,Вера\n".encode("cp1251"))
    with pytest.raises(FileFormatError, match=r"line 1: byte 0xe8 is not UTF-8; .*name its encoding"):
        read_graph(path)  # as cp1252 it would be words of accented letters
    g = quiet(path, encoding="CP1251", header=True)
    assert g.node_names == ["Анна", "Борис", "Вера"]
    assert "encoding cp1251 (as asked for)" in g.notes
    with pytest.raises(FileFormatError, match=r"line 1: the text is not utf-8: pass another encoding"):
        read_graph(path, encoding="utf-8")
    for wrong in ("nonsense", "zip", 7):
        with pytest.raises(ParameterError, match=r"encoding is .*: name one such as 'utf-8'"):
            read_graph(path, encoding=wrong)


def test_features_and_large_files(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "id;größe\nZoë;1,5\nBjørn;2\n".encode("cp1252"))
    assert read_features(path, ["Bjørn", "Zoë"]).ravel().tolist() == [2.0, 1.5]
    wide = write(tmp_path, "w.csv", path.read_bytes().decode("cp1252").encode("utf-16"))
    assert read_features(wide).ravel().tolist() == [1.5, 2.0]
    # Larger than what is read block by block.
    rows = "".join(f"Zoë {i},Bjørn {i + 1}\n" for i in range(70_000))
    g = quiet(write(tmp_path, "g.csv", rows.encode("cp1252")))
    assert (g.num_edges, g.node_names[0]) == (70_000, "Zoë 0")
    assert quiet(write(tmp_path, "g.csv", rows.encode("utf-16"))).num_edges == 70_000


def test_where_western_text_ends() -> None:
    """Two letters of five with accents are words of Western text, three are not; nor is a sign of no such text."""
    for text, western in (("éèabc", True), ("éèàbc", False), ("abc ¿é", False), ("caf\xe9 \xa0€", True)):
        data = text.encode("cp1252")
        assert as_utf8(data, None, "g")[0] == (text.encode() if western else data)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_seven_of_ten_wide_letters_are_latin(encoding: str) -> None:
    for text, found in (("abcdefgяяя", True), ("abcdefяяяя", False)):
        data = text.encode(encoding)
        assert as_utf8(data, None, "g")[0] == (text.encode() if found else data)
    empty = "abcdefghi\0".encode(encoding)  # both halves have zeros
    assert as_utf8(empty, None, "g") == (empty, [])
    odd = "abcdefg".encode(encoding)[:-1]
    assert as_utf8(odd, None, "g") == (odd, [])


def test_what_is_no_text_stays_refused(tmp_path: Path) -> None:
    for data in (b"a,b\n\x81\x8d,c\n", b"\xff\xfe\x00", b"a\x00\x00\x00,b\n"):
        with pytest.raises(FileFormatError, match=r"g\.csv, line"):
            read_graph(write(tmp_path, "g.csv", data))
