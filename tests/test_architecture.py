"""The shape of the package, read from its source: rooms in order, no cycles, no private names, no long files.

Every import counts, also those inside functions and those under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import softcut

# A module imports only from its own room and from rooms before it.
ROOMS = (
    *("errors", "device", "files", "provenance", "tables", "graph", "io", "ops", "metrics", "coarsening"),
    *("nn", "training", "clustering", "learning", "datasets", "baselines", "segment", "report", "serve"),
    *("paper", "cli"),
)
# Files of the package root that are no rooms: the public names, and `python -m softcut`.
ROOT_FILES = ("__init__.py", "__main__.py", "py.typed")
MOST_LINES = 450
# The one module that may use private names of torch.
TORCH_MODULE = "softcut.ops._torch"


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its path, and what it says."""

    name: str
    file: str
    source: str

    @property
    def package(self) -> str:
        return self.name if self.file.endswith("/__init__.py") else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """`name` of module `target` (or the module itself, where `name` is empty), imported at `line`."""

    target: str
    name: str
    line: int


def read_package(root: Path, package: str = "softcut") -> dict[str, Module]:
    """All modules below a folder, by dotted name."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        file = path.relative_to(root).as_posix()
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[name] = Module(name, file, path.read_text(encoding="utf-8"))
    return modules


def imports_of(module: Module) -> Iterator[Import]:
    """Every import in a module: statements anywhere, and `import_module` called with a literal name."""
    for node in ast.walk(ast.parse(module.source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            target = node.module or ""
            if node.level:
                parent = module.package.split(".")
                parent = parent[: len(parent) - node.level + 1]
                target = ".".join([*parent, target] if target else parent)
            for alias in node.names:
                yield Import(target, alias.name, node.lineno)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("import_module")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield Import(str(node.args[0].value), "", node.lineno)


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def room_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else None


def target_module(imported: Import, modules: dict[str, Module]) -> str:
    """The module an import reads: ``from package import module`` names a module, not a value."""
    whole = f"{imported.target}.{imported.name}"
    return whole if imported.name and whole in modules else imported.target


def later_rooms(modules: dict[str, Module]) -> list[str]:
    """Imports from a later room, or through the package root (which hides the room)."""
    problems = []
    for module in modules.values():
        own = room_of(module.name)
        if own is None:  # the package root names what is public, from any room
            continue
        for imported in imports_of(module):
            target = target_module(imported, modules)
            where = f"{module.file}:{imported.line}"
            other = room_of(target)
            if other is not None and ROOMS.index(other) > ROOMS.index(own):
                problems.append(f"{where}: {own} imports from {other}, a later room")
            if target == "softcut" and imported.name != "__version__":
                problems.append(
                    f"{where}: imports {imported.name or 'softcut'} from the package root; name its room"
                )
    return problems


def cycles(modules: dict[str, Module]) -> list[str]:
    """Groups of modules that import each other in a circle."""
    names = sorted(set(modules) - {"softcut"})
    number = {name: i for i, name in enumerate(names)}
    edges = [
        (number[name], number[target])
        for name in names
        for imported in imports_of(modules[name])
        if (target := target_module(imported, modules)) in number and target != name
    ]
    rows, columns = np.array(edges, dtype=int).reshape(-1, 2).T
    matrix = sp.coo_array((np.ones(len(edges)), (rows, columns)), shape=(len(names), len(names)))
    _, group = connected_components(matrix, connection="strong")
    circles = [[names[i] for i in np.flatnonzero(group == g)] for g in np.flatnonzero(np.bincount(group) > 1)]
    return [f"{modules[circle[0]].file}: import cycle among " + ", ".join(circle) for circle in circles]


def private_names(modules: dict[str, Module]) -> list[str]:
    """Another module's private names, imported or reached through an imported module; private names of torch."""
    problems = []
    for module in modules.values():
        bound: dict[str, str] = {}  # local name -> module it stands for
        tree = ast.parse(module.source)
        for imported in imports_of(module):
            where = f"{module.file}:{imported.line}"
            target = target_module(imported, modules)
            bound[imported.name or target] = target
            parts = target.split(".")
            hidden = [i for i, part in enumerate(parts) if is_private(part)]
            if parts[0] == "torch" and module.name != TORCH_MODULE and (hidden or is_private(imported.name)):
                problems.append(f"{where}: uses private names of torch outside {TORCH_MODULE}")
            if parts[0] != "softcut":
                continue
            owner = ".".join([*parts[: hidden[0]], ""]) if hidden else ""  # the package of a private module
            if not f"{module.package}.".startswith(owner):
                problems.append(f"{where}: imports the private module {target}")
            if is_private(imported.name) and target == imported.target:
                problems.append(f"{where}: imports the private name {imported.name} of {imported.target}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if alias.asname:
                        bound[alias.asname] = bound.get(alias.name, alias.name)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                owner = bound.get(ast.unparse(node.value), "")
                if owner in modules and owner != module.name:
                    problems.append(
                        f"{module.file}:{node.lineno}: uses the private name {node.attr} of {owner}"
                    )
                if owner.split(".")[0] == "torch" and module.name != TORCH_MODULE:
                    problems.append(f"{module.file}:{node.lineno}: uses the private name torch.{node.attr}")
    return problems


def long_files(modules: dict[str, Module]) -> list[str]:
    """Files too long to be read in one go."""
    lengths = {m.file: m.source.count("\n") for m in modules.values()}
    return [f"{f}: {n} lines, more than {MOST_LINES}" for f, n in lengths.items() if n > MOST_LINES]


def strangers(root: Path) -> list[str]:
    """What stands in the package folder and is neither a room nor a file of the root."""
    names = (p for p in (root / "softcut").iterdir() if p.name != "__pycache__")
    return [
        f"softcut/{p.name}: not a room; the rooms are listed in this test"
        for p in sorted(names)
        if p.name not in ROOT_FILES and p.name.removesuffix(".py") not in ROOMS
    ]


ROOT = Path(softcut.__file__).resolve().parents[1]
RULES = {"later rooms": later_rooms, "cycles": cycles, "private names": private_names, "lines": long_files}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps(rule):
    problems = RULES[rule](read_package(ROOT))
    assert not problems, "\n" + "\n".join(problems)


def test_the_package_has_no_other_modules():
    assert not strangers(ROOT)


# -------------------------------------------------------------------- the rules catch what they should

GOOD = {
    "softcut/__init__.py": "__version__ = '1'\ndef f():\n    from softcut.cli import main\n",
    "softcut/errors.py": "import numpy as np\nclass Wrong(Exception): ...\n",
    "softcut/graph/__init__.py": "from softcut.graph.graph import Graph\n",
    "softcut/graph/graph.py": "from softcut import __version__\nfrom softcut.graph._checks import check\n",
    "softcut/graph/_checks.py": "from softcut.errors import Wrong\n_own = 1\nprint(_own)\n",
    "softcut/ops/__init__.py": "",
    "softcut/ops/_torch.py": "import torch\nfrom torch._C import _x\nprint(torch._y)\n",
    "softcut/cli.py": "from softcut.graph import Graph\nclass A:\n    def f(self):\n        return self._x\n",
}
# A rule, the module that breaks it, and how.
BAD = [
    ("later rooms", "errors", "from softcut.graph import Graph"),
    ("later rooms", "errors", "from softcut import graph"),
    ("later rooms", "errors", "def f():\n    import softcut.graph.graph"),
    ("later rooms", "graph/_checks", "from ..cli import x"),
    ("later rooms", "errors", "if TYPE_CHECKING:\n    from softcut.graph import Graph"),
    ("later rooms", "errors", "importlib.import_module('softcut.graph')"),
    ("later rooms", "graph/graph", "from softcut import Graph"),
    ("cycles", "graph/_checks", "from softcut.graph import graph"),
    ("cycles", "graph/_checks", "from softcut.graph import Graph"),
    ("cycles", "graph/_checks", "def f():\n    from .graph import Graph"),
    ("private names", "graph/graph", "from softcut.errors import _hidden"),
    ("private names", "graph/graph", "from softcut.graph._checks import _own"),
    ("private names", "cli", "from softcut.graph._checks import check"),
    ("private names", "cli", "from softcut.graph import _checks"),
    ("private names", "cli", "from softcut import errors\nerrors._x"),
    ("private names", "cli", "import softcut.graph.graph as g\nprint(g._x)"),
    ("private names", "cli", "from torch._functorch import vmap"),
    ("private names", "cli", "import torch\ntorch._C"),
    ("lines", "errors", "x = 1\n" * MOST_LINES),
]


def write_tree(root: Path, files: dict[str, str]) -> dict[str, Module]:
    for name, source in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source, encoding="utf-8")
    return read_package(root)


def test_a_good_tree_passes(tmp_path):
    modules = write_tree(tmp_path, GOOD)
    assert {rule: check(modules) for rule, check in RULES.items()} == {rule: [] for rule in RULES}
    assert strangers(tmp_path) == []


@pytest.mark.parametrize(("rule", "module", "source"), BAD)
def test_a_bad_tree_is_caught(tmp_path, rule, module, source):
    file = f"softcut/{module}.py"
    (problem,) = RULES[rule](write_tree(tmp_path, GOOD | {file: source + "\n"}))
    # A cycle may be named by any of its members.
    assert problem.startswith(file if rule != "cycles" else "softcut/")


def test_a_module_that_is_no_room_is_caught(tmp_path):
    write_tree(tmp_path, GOOD | {"softcut/utils.py": ""})
    assert [p.split(":")[0] for p in strangers(tmp_path)] == ["softcut/utils.py"]
