"""What the pages say is so: scores, attributes, data sets, files, links; code, commands and examples run."""

import dataclasses
import importlib.util
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import typer
from helpers.csv_files import write_csv
from PIL import Image

from softcut import Graph, cli, metrics
from softcut.cli.app import app
from softcut.clustering import GraphClustering, Recipe
from softcut.datasets import attributed_communities
from softcut.ops import OBJECTIVES
from tools.tables import pages

ROOT = Path(__file__).resolve().parents[1]
README, EXAMPLES = ROOT / "README.md", ROOT / "examples"
HOW_TO = [*sorted((ROOT / "docs/how-to").glob("*.md")), README, EXAMPLES / "README.md"]
NAVIGATION = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
# Default fits take seconds: here only that the code runs is looked at.
QUICK = {
    "max_iter=50, random_state=0": "max_iter=2",
    "random_state=0).fit(": "max_iter=5).fit(",
    "epochs=20": "epochs=1",
    "astronaut()": "astronaut()[::8, ::8]",
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(path: Path, language: str) -> list[list[str]]:
    return commands_of("".join(blocks(path.read_text(encoding="utf-8"), language)))


def commands_of(text: str) -> list[list[str]]:
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("softcut ")]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ["--n-init", "2", "--max-iter", "5"] if words[0] == "cluster" else []
    monkeypatch.setattr(sys, "argv", ["softcut", *(w.replace("2:20", "2:4") for w in words), *quick])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0, words


def test_every_score_is_computed_by_the_function_named_beside_it():
    names: dict[str, object] = {}
    exec(blocks(page("metrics.md"), "python")[0], names)
    listed = [*metrics.LABEL_SCORES, *metrics.GRAPH_SCORES]
    assert [*names["scores"]] == first_column(page("metrics.md")) == listed
    graph = attributed_communities(100, 3, seed=0)
    labels = (graph.y + (np.arange(100) % 7 == 0)) % 3  # some nodes are wrong
    scores = metrics.evaluate(graph, labels, k=4)
    known = {"graph": graph, "y": graph.y, "labels": labels, "k": 4}
    for key, call in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page("metrics.md"), flags=re.MULTILINE):
        assert eval(call, vars(metrics) | known) == pytest.approx(scores[key], rel=1e-12), key


def test_the_objectives_are_those_that_exist():
    assert re.findall(r'^\| `"(\w+)"` \|', page("objectives.md"), flags=re.MULTILINE) == list(OBJECTIVES)


def test_files_and_tests_that_pages_name_exist():
    paths = re.findall(r"`([\w/]+/\w+\.py)`", page("architecture.md"))
    assert len(paths) > 40
    assert [p for p in paths if not (ROOT / p).exists() and not (ROOT / "softcut" / p).exists()] == []
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    written = "".join(tests.values())
    said = re.findall(r"`(test_\w+(?:\.py)?)`", page("robustness.md") + page("robustness-reading.md"))
    assert len(said) > 70
    assert [name for name in said if name not in tests and f"def {name}(" not in written] == []


@pytest.mark.parametrize("name", ["robustness.md", "robustness-reading.md"])
def test_every_limit_that_is_stated_names_its_test(name):
    checked = 0
    for section in re.split(r"\n(?=\*\*|#)", page(name).split("## Would the tests notice?")[0]):
        head, *limits = re.split(r"\n- ", section)
        for limit in limits:
            assert "`test_" in head or "`test_" in limit, limit
        checked += len(limits)
    assert checked > 10


@pytest.fixture
def people(here):
    """The files that docs/clustering.md works on; a ring joins all nodes."""
    ring = sp.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(60)))
    for name, words, seed in (("people", "words", 0), ("others", "other_words", 1)):
        graph = attributed_communities(60, 3, n_features=20, seed=seed)
        joined = Graph.from_scipy(graph.adjacency + ring, x=graph.x)
        write_csv(joined, Path(f"{name}.csv"), Path(f"{words}.csv"))


def test_the_page_of_the_estimator(people, monkeypatch):
    text, names = page("clustering.md"), {}
    exec(blocks(text, "python")[0].replace("random_state=0", "n_init=2, max_iter=5"), names)
    est = names["est"]
    assert isinstance(est, GraphClustering)
    attributes = re.findall(r"`([a-z_]+_)`", text)
    assert len(attributes) > 10
    assert [name for name in attributes if not hasattr(est, name)] == []
    arguments = re.findall(r"`([a-z_]+)=[^`]*`", text)
    known = {*est.get_params(), *(field.name for field in dataclasses.fields(Recipe))}
    assert {"n_clusters"} <= set(arguments) <= known
    for line in blocks(text, "bash")[0].splitlines():
        run_command(shlex.split(line)[1:], monkeypatch)
    listed = [name for name in first_column(text) if "." in name]
    assert sorted(p.name for p in Path("result").iterdir()) == sorted(listed)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*HOW_TO, ROOT / "docs/report.md", ROOT / "docs/objectives.md"], ids=name)
def test_a_page_runs_as_printed_from_top_to_bottom(path, here, monkeypatch):
    shutil.copytree(EXAMPLES, here / "examples")  # all else is made by the blocks themselves
    names: dict[str, object] = {"__name__": "page"}
    steps = re.findall(
        r"^```(python|bash)\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for language, block in steps:
        if language == "bash":
            for words in commands_of(block):
                run_command(words, monkeypatch)
            continue
        for slow, quick in QUICK.items():
            block = block.replace(slow, quick)
        exec(compile(block, path.name, "exec"), names)


@pytest.mark.parametrize("path", [p for p in HOW_TO if commands(p, "sh")], ids=name)
def test_commands_that_take_long_exist_with_their_options(path, monkeypatch, capsys):
    for words in commands(path, "sh"):
        if words[0] == "reproduce":  # its options are those of the experiment
            capsys.readouterr()
            run_command([*words, "--help"], monkeypatch)
            known = set(re.findall(r"(?<=[ ,])--?[a-z-]+", capsys.readouterr().out))
        else:
            known = options_of(typer.main.get_command(app).commands[words[0]])
        assert [w for w in words if re.match("--?[a-z]", w) and w.partition("=")[0] not in known] == []


@pytest.mark.parametrize(("name", "used"), [("report.md", ["report", "cluster"]), ("serve.md", ["serve"])])
def test_options_that_pages_name_exist(name, used):
    command = typer.main.get_command(app)
    known = set().union(*(options_of(command.commands[each]) for each in used))
    assert set(re.findall(r"--[a-z-]+", page(name))) <= known


def options_of(command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


@pytest.fixture
def run(here, monkeypatch, capsys):
    """Runs an example in an empty folder; what it prints."""

    def run_example(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def number(pattern: str, text: str) -> float:
    match = re.search(pattern + r" ([0-9.]+\d)", text)
    assert match, text
    return float(match[1])


def test_own_csv(run, tmp_path):
    said = run("own_csv")
    assert "joined by column 'name'" in said
    assert re.search(r"verdict: (none|weak|clear), \d", said)
    assert len(re.findall(r"cluster \d: 20 people", said)) == 3  # the three clubs
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert lines[0] == "node,cluster,probability" and len(lines) == 61
    assert (tmp_path / "friends.png").read_bytes().startswith(b"\x89PNG")


def test_pyg_classifier(run):
    said = run("pyg_classifier", "150")
    assert len(re.findall(r"epoch \d+: loss", said)) == 3
    assert number("test accuracy", said.splitlines()[-1]) > 0.5  # of three classes


def test_photo(run, tmp_path):
    image = np.zeros((60, 80, 3), dtype=np.uint8)
    image[:, 40:] = (240, 200, 40)
    Image.fromarray(image).save(tmp_path / "halves.png")
    said = run("photo", "halves.png", "2")
    assert "80 x 60 pixels" in said and said.count("50% of the photo") == 2
    with Image.open(tmp_path / "photo-segments.png") as picture:
        assert picture.size == (80, 60)


def test_millions_of_edges(run):
    said = run("millions_of_edges", "10000")
    assert number("NMI with the communities", said) > 0.9


@pytest.mark.slow  # starts three processes, a quarter of a minute
def test_several_machines(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    said = run("several_machines", "300")
    assert "2 processes" in said
    assert number("NMI with the communities:", said) > 0.9
    assert len((tmp_path / "labels/labels.csv").read_text().splitlines()) == 301


def test_every_example_is_run_here_and_listed():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r"run\(\"(\w+)\"", Path(__file__).read_text()))
    listed = set(re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text()))
    assert scripts == tested == listed


def hook(name: str) -> ModuleType:
    pytest.importorskip("mkdocs")
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location(f"hook_{name}", ROOT / f"docs/hooks/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_gallery_runs_every_example():
    assert set(hook("gallery").EXAMPLES) == {path.stem for path in EXAMPLES.glob("*.py")}


def test_every_page_is_in_the_navigation_once():
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    examples = {f"gallery/{path.stem}.md" for path in EXAMPLES.glob("*.py")}
    outside = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "gallery/index.md"}
    assert sorted(NAVIGATION) == sorted(written | examples | outside)


@pytest.mark.parametrize("page", pages(ROOT), ids=name)
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_links_out_of_docs_lead_into_the_site():
    text = "[a](../results/table1.json) [b](quality.md#x) [c](none.md)"
    targets = hook("outside").targets(text, "reproduction.md", ROOT)
    assert targets == {"../results/table1.json": "results/table1.json", "quality.md": "quality.md"}
    targets = hook("outside").targets("[a](docs/how-to/scale-out.md)", "README.md", ROOT)
    assert targets == {"docs/how-to/scale-out.md": "how-to/scale-out.md"}


def test_docstrings_become_markdown():
    made = hook("docstrings").as_markdown(
        "One of :class:`~softcut.Graph`.\n\n>>> 1 + 1\n2\n\nMore.\n\nParameters\n----------\nx\n    It.\n\n>>> 2\n2"
    )
    assert made == (
        "One of `softcut.Graph`.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.\n\nParameters\n----------\nx\n    It.\n\n"
        "Examples\n--------\n>>> 2\n2"
    )
    formula = hook("docstrings").as_markdown("Loss\n\n.. math::\n    \\frac{a}{b}\n    + c\n\nafter")
    image = r'<img class="formula" alt="\\frac{a}{b} \+ c" src="data:image/svg[^"]+">'
    assert re.fullmatch(rf"Loss\n\n{image}\n+after", formula)


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("material")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "index.html").read_text()
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page)
    assert loaded == []  # nothing is fetched from elsewhere
