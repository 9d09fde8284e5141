"""What pyproject.toml declares: extras that messages name, versions without known vulnerabilities."""

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SOURCES = sorted((ROOT / "softcut").rglob("*.py"))
# The first versions without the vulnerabilities known in November 2026.
SAFE = {
    "python-multipart": "0.0.31",  # CVE-2026-53540
    "starlette": "1.3.1",  # CVE-2026-54283
    "pillow": "12.3",  # CVE-2026-40192 (12.2), and those of 12.3
    "jinja2": "3.1.6",  # CVE-2025-27516
    "pyarrow": "23.0.1",  # CVE-2026-25087, CVE-2023-47248
    "filelock": "3.20.3",  # CVE-2025-68146
    "torch": "2.6",  # CVE-2025-32434
}


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;\s]", requirement)[0].lower().replace("_", "-")


def packages(extra: str) -> set[str]:
    """The packages of an extra, with those of the extras it names, and what softcut needs anyway."""
    found = {name_of(each) for each in PROJECT["dependencies"]}
    for requirement in EXTRAS[extra]:
        if inner := re.match(r"softcut\[([\w,]+)\]", requirement):
            found |= set().union(*map(packages, inner[1].split(",")))
        else:
            found.add(name_of(requirement))
    return found


def required() -> list[tuple[str, str, str]]:
    """(file, module, extra) of every call of `require`."""
    calls = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require":
                module, extra = node.args[0], node.args[1]
                text = module.values[0].value if isinstance(module, ast.JoinedStr) else module.value
                calls.append((path.name, text.split(".")[0], extra.value))
    return calls


def test_messages_name_extras_that_bring_the_package():
    calls, known = required(), packages_distributions()
    assert len(calls) > 30
    for file, module, extra in calls:
        names = {name.lower().replace("_", "-") for name in known[module]}
        brought = packages(extra) if extra in EXTRAS else {name_of(each) for each in PROJECT["dependencies"]}
        assert (extra is None or extra in EXTRAS) and names & brought, (
            f"{file}: {extra} does not bring {module}"
        )


def test_extras_named_in_text_exist():
    for path in [*SOURCES, ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for names in re.findall(r"(?:softcut|['\"]\.)\[([a-z,]+)\]", path.read_text()):
            assert set(names.split(",")) <= EXTRAS.keys(), path


def test_lower_bounds_are_above_known_vulnerabilities():
    every = [*PROJECT["dependencies"], *(each for group in EXTRAS.values() for each in group)]
    bounds = [(name_of(each), each.split(">=")[1].split(";")[0]) for each in every if ">=" in each]
    for name, least in SAFE.items():
        found = [version for known, version in bounds if known == name]
        assert found, name
        for version in found:
            assert [int(n) for n in version.split(".")] >= [int(n) for n in least.split(".")], (name, version)
