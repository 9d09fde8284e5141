"""What the command of a distributed training checks first and leaves behind; what processes send each other."""

import errno
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.thread_group import in_parts

from softcut.clustering.distributed import __main__ as command
from softcut.clustering.distributed import partition
from softcut.clustering.distributed.group import packed, unpacked
from softcut.datasets import attributed_communities
from softcut.graph import Graph

GRAPH = attributed_communities(n_nodes=60, n_clusters=3, n_features=20, seed=0)
RESULTS = {"labels.csv", "labels.npy", "networks.safetensors", "result.json"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def parts(tmp_path):
    first, second = GRAPH.edge_index()[0]
    names = [f"n{i}" for i in range(60)]
    partition(Graph.from_edges([first, second], num_nodes=60, x=GRAPH.x, node_names=names), 1, tmp_path / "p")
    return tmp_path / "p"


def run(parts, *options):
    return command.main([str(parts), "-k", "3", "--n-init", "2", "--max-iter", "5", *options])


def untrained(*arguments, **options):
    raise AssertionError("it must be said before the training")


def resign(parts):
    """Make names.jsonl the file that the manifest describes."""
    import hashlib

    manifest, names = json.loads((parts / "manifest.json").read_text()), (parts / "names.jsonl").read_bytes()
    manifest["files"]["names.jsonl"] = {"bytes": len(names), "sha256": hashlib.sha256(names).hexdigest()}
    (parts / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "signed", "said"),
    [
        (None, False, "names.jsonl is missing"),
        (lambda text: text.replace(b"n7", b"n8"), False, "names.jsonl is damaged"),
        (lambda text: text + b'"more"\n', True, "61 names of 60 nodes"),
        (lambda text: text.replace(b'"n7"', b"7"), True, "names.jsonl does not hold the name of each node"),
        (lambda text: text.replace(b'"n7"', b'"\\ud800"'), True, "does not hold the name of each node"),
        (lambda text: text.replace(b'"n7"', b'"n7'), True, "does not hold the name of each node"),
    ],
)
def test_names_are_checked_before_the_training(parts, monkeypatch, capsys, change, signed, said):
    monkeypatch.setattr(command, "train_part", untrained)
    file = parts / "names.jsonl"
    file.write_bytes(change(file.read_bytes())) if change else file.unlink()
    if signed:
        resign(parts)
    assert run(parts) == 2
    assert said in capsys.readouterr().err


def test_places_that_cannot_take_the_results_are_refused_before_the_training(parts, monkeypatch, capsys):
    monkeypatch.setattr(command, "train_part", untrained)
    (parts.parent / "file").touch()
    assert run(parts, "--out", str(parts.parent / "file" / "inside")) == 2
    assert "is a file" in capsys.readouterr().err
    assert run(parts, "--out", str(parts)) == 2
    assert "holds other files (manifest.json)" in capsys.readouterr().err
    monkeypatch.setattr(command, "_BYTES_OF_NODE", 10**15)
    assert run(parts, "--out", str(parts.parent / "new")) == 2
    assert "MB left" in capsys.readouterr().err


def test_a_disk_that_is_full_leaves_the_old_results_and_a_checkpoint(parts, monkeypatch, capsys):
    out = parts.parent / "p-clusters"
    assert run(parts) == 0
    before = contents(out)
    assert set(before) == RESULTS

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(command, "atomic_json", full)
        assert run(parts, "--overwrite", "--seed", "1") == 2
    assert "No space left on device" in capsys.readouterr().err
    kept = contents(out)
    assert kept.pop("checkpoint.pt") and kept == before  # short as it was, the training need not be repeated
    assert run(parts, "--overwrite", "--seed", "1") == 0
    assert "resumed from a checkpoint after 5 iterations" in capsys.readouterr().out
    assert set(contents(out)) == RESULTS and contents(out) != before
    assert sorted(p.name for p in parts.parent.iterdir()) == ["p", "p-clusters"]
    # The same as of a training that was not resumed.
    assert run(parts, "--out", str(parts.parent / "fresh"), "--seed", "1") == 0
    assert np.array_equal(np.load(out / "labels.npy"), np.load(parts.parent / "fresh" / "labels.npy"))


def test_a_process_killed_while_results_are_switched_leaves_the_old_ones(parts, capsys):
    out = parts.parent / "p-clusters"
    assert run(parts) == 0
    before = contents(out)
    out.rename(parts.parent / ".p-clusters.old")  # where a kill can interrupt
    (parts.parent / ".p-clusters.new").mkdir()
    assert run(parts) == 2
    assert "holds the results of an earlier run" in capsys.readouterr().err
    assert contents(out) == before
    assert sorted(p.name for p in parts.parent.iterdir()) == ["p", "p-clusters"]


def test_what_processes_send_is_data_and_never_code(tmp_path):
    value = {"done": 3, "names": ["a", None, 0.5], "state": {"x": torch.eye(2), "none": torch.zeros(0, 2)}}
    for seen in in_parts(2, lambda group: group.gather(value if group.rank else "first")):
        assert seen[0] == "first" and seen[1]["names"] == value["names"]
        assert torch.equal(seen[1]["state"]["x"], torch.eye(2)) and seen[1]["state"]["none"].shape == (0, 2)

    class Hostile:
        def __reduce__(self):
            return Path.touch, (tmp_path / "owned",)

    data = torch.frombuffer(bytearray(pickle.dumps(Hostile())), dtype=torch.uint8)
    with pytest.raises(Exception, match=r"(?i)header|deserializ"):
        unpacked(data)
    assert not (tmp_path / "owned").exists()
    assert unpacked(packed(None)) is None
    for file in Path(command.__file__).parent.glob("*.py"):  # PyTorch's functions for objects pickle them
        assert "_object" not in file.read_text()
