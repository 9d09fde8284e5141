"""The shape of the package, read from its source: rooms in order, no cycles, no private names, no long files.

Every import counts, also those inside functions and those under TYPE_CHECKING.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import softcut

# A module imports only from its own room and from rooms before it.
ROOMS = (
    *(
        "imports",
        "sklearn_base",
        "errors",
        "device",
        "files",
        "provenance",
        "colours",
        "tables",
        "graph",
        "io",
        "ops",
        "metrics",
        "communities",
        "coarsening",
    ),
    *("nn", "training", "clustering", "learning", "datasets", "baselines", "segment", "report", "serve"),
    *("paper", "cli"),
)
# Files of the package root that are no rooms: the public names, and `python -m softcut`.
ROOT_FILES = ("__init__.py", "__main__.py", "py.typed")
MOST_LINES = 800
# Imports from a later room that are allowed: methods of estimators that write a page, imported when called.
CALLED_LATER = {
    (f"softcut.{module}", "softcut.report.of_estimators")
    for module in ("clustering.showing", "learning.estimator", "learning.regression")
}
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


class Import(NamedTuple):
    """`name` of module `target` (or the module itself: `name` is empty), known as `bound` from `line` on."""

    target: str
    name: str
    bound: str
    line: int


def read_package(root: Path, package: str = "softcut") -> dict[str, Module]:
    """All modules below a folder, by dotted name."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        file = path.relative_to(root).as_posix()
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[name] = Module(name, file, path.read_text(encoding="utf-8"))
    return modules


def imports_of(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """Every import in a module: statements anywhere, and `import_module` called with a literal name."""
    for node in ast.walk(ast.parse(module.source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, "", alias.asname or alias.name, node.lineno)
            case ast.ImportFrom(names=names):
                parent = module.package.split(".")
                parent = parent[: len(parent) - node.level + 1] if node.level else []
                target = ".".join([*parent, *filter(None, [node.module])])
                for alias in names:
                    bound, whole = alias.asname or alias.name, f"{target}.{alias.name}"
                    # `from package import module` names a module, not a value.
                    named = (whole, "") if whole in modules else (target, alias.name)
                    yield Import(*named, bound, node.lineno)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(function).endswith("import_module"):
                    yield Import(name, "", "", node.lineno)


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def room_of(name: str) -> int | None:
    """The number of a module's room; None for the package root and for other packages."""
    package, _, rest = name.partition(".")
    room = rest.split(".")[0]
    return ROOMS.index(room) if package == "softcut" and room in ROOMS else None


def later_rooms(modules: dict[str, Module]) -> Iterator[str]:
    """Imports from a later room, or through the package root (which hides the room)."""
    for module in modules.values():
        own = room_of(module.name)
        if own is None:  # the package root names what is public, from any room
            continue
        for target, name, _, line in imports_of(module, modules):
            other = room_of(target)
            allowed = (module.name, target) in CALLED_LATER
            if other is not None and other > own and not allowed:
                yield f"{module.file}:{line}: {ROOMS[own]} imports from {ROOMS[other]}, a later room"
            if target == "softcut" and name != "__version__":
                yield f"{module.file}:{line}: imports {name or target} from the package root; name its room"


def cycles(modules: dict[str, Module]) -> Iterator[str]:
    """Modules that import each other in a circle."""
    targets = {
        name: {i.target for i in imports_of(module, modules) if (name, i.target) not in CALLED_LATER}
        & modules.keys() - {"softcut", name}
        for name, module in modules.items()
        if name != "softcut"
    }
    try:
        TopologicalSorter(targets).prepare()
    except CycleError as error:
        circle = error.args[1]
        yield f"{modules[circle[0]].file}: import cycle " + ", ".join(circle)


def private_names(modules: dict[str, Module]) -> Iterator[str]:
    """Another module's private names, imported or reached through an imported module; private names of torch."""
    for module in modules.values():
        bound: dict[str, str] = {}  # local name -> module it stands for
        for target, name, local, line in imports_of(module, modules):
            where = f"{module.file}:{line}"
            bound[local] = target
            parts = target.split(".")
            hidden = [i for i, part in enumerate(parts) if is_private(part)]
            if parts[0] == "torch" and module.name != TORCH_MODULE and (hidden or is_private(name)):
                yield f"{where}: uses private names of torch outside {TORCH_MODULE}"
            if parts[0] != "softcut":
                continue
            owner = ".".join([*parts[: hidden[0]], ""]) if hidden else ""  # the package of a private module
            if not f"{module.package}.".startswith(owner):
                yield f"{where}: imports the private module {target}"
            if is_private(name):
                yield f"{where}: imports the private name {name} of {target}"
        for node in ast.walk(ast.parse(module.source)):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                owner = bound.get(ast.unparse(node.value), "")
                torch = owner.split(".")[0] == "torch" and module.name != TORCH_MODULE
                if torch or (owner in modules and owner != module.name):
                    yield f"{module.file}:{node.lineno}: uses the private name {node.attr} of {owner}"


def long_files(modules: dict[str, Module]) -> Iterator[str]:
    """Files too long to be read in one go."""
    for module in modules.values():
        lines = module.source.count("\n")
        if lines > MOST_LINES:
            yield f"{module.file}: {lines} lines, more than {MOST_LINES}"


def strangers(root: Path) -> list[str]:
    """What stands in the package folder and is neither a room nor a file of the root."""
    known = {*ROOT_FILES, *ROOMS, *(f"{room}.py" for room in ROOMS), "__pycache__"}
    return sorted(p.name for p in (root / "softcut").iterdir() if p.name not in known)


ROOT = Path(softcut.__file__).resolve().parents[1]
RULES = {"later rooms": later_rooms, "cycles": cycles, "private names": private_names, "lines": long_files}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps(rule):
    problems = list(RULES[rule](read_package(ROOT)))
    assert not problems, "\n" + "\n".join(problems)
    assert not strangers(ROOT), "not a room; the rooms are listed in this test"


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
    ("later rooms", "errors", "def f():\n    import softcut.graph.graph"),
    ("later rooms", "graph/_checks", "from ..cli import x"),
    ("later rooms", "errors", "if TYPE_CHECKING:\n    from softcut.graph import Graph"),
    ("later rooms", "errors", "importlib.import_module('softcut.graph')"),
    ("later rooms", "graph/graph", "from softcut import Graph"),
    ("cycles", "graph/_checks", "def f():\n    from .graph import Graph"),
    ("private names", "graph/graph", "from softcut.errors import _hidden"),
    ("private names", "cli", "from softcut.graph._checks import check"),
    ("private names", "cli", "from softcut.graph import _checks"),
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
    assert [problem for check in RULES.values() for problem in check(modules)] == []
    assert strangers(tmp_path) == []
    write_tree(tmp_path, {"softcut/utils.py": ""})
    assert strangers(tmp_path) == ["utils.py"]


@pytest.mark.parametrize(("rule", "module", "source"), BAD)
def test_a_bad_tree_is_caught(tmp_path, rule, module, source):
    file = f"softcut/{module}.py"
    (problem,) = RULES[rule](write_tree(tmp_path, GOOD | {file: source + "\n"}))
    # A cycle may be named by any of its members.
    assert problem.startswith(file if rule != "cycles" else "softcut/")


def test_dir_lists_public_names_only_and_all_of_them_exist():
    assert dir(softcut) == sorted(softcut.__all__)
    assert all(getattr(softcut, name) is not None for name in dir(softcut))
