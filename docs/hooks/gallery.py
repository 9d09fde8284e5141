"""The gallery: every example is run while the site is built; its page shows what it printed and drew.

An example that fails ends the build with its traceback. Examples run in an empty folder, in a process of their own.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

# Examples in the order of the gallery, with the arguments that they are run with.
EXAMPLES: dict[str, list[str]] = {
    "own_csv": [],
    "pyg_classifier": [],
    "photo": [],
    "millions_of_edges": ["100000"],
    "several_machines": ["2000"],
}
LIMIT = 300  # seconds an example may take


@dataclass
class Shown:
    """What an example's page is made of."""

    title: str
    text: str
    code: str
    printed: str
    pictures: dict[str, bytes] = field(default_factory=dict)

    def page(self, name: str) -> str:
        pictures = "\n\n".join(f"![{self.title}]({name}-{picture})" for picture in self.pictures)
        command = " ".join(["python", f"examples/{name}.py", *EXAMPLES[name]])
        parts = [f"# {self.title}", self.text, f"```python\n{self.code}\n```", f"`{command}` prints"]
        parts += [f"```\n{self.printed}\n```"]
        parts += [f"and draws\n\n{pictures}"] if pictures else []
        return "\n\n".join(parts)


_SEEN: dict[
    str, tuple[str, Shown]
] = {}  # while `mkdocs serve` runs, an example is run again only when it has changed


def run(path: Path, arguments: list[str], root: Path) -> Shown:
    source = path.read_text(encoding="utf-8")
    if path.stem in _SEEN and _SEEN[path.stem][0] == source:
        return _SEEN[path.stem][1]
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or path.stem).partition("\n")
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
    paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(path), *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths, "OMP_WAIT_POLICY": "PASSIVE", "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise PluginError(f"{path} failed:\n{done.stdout}{done.stderr}")
        pictures = {p.name: p.read_bytes() for p in sorted(Path(folder).glob("*.png"))}
        printed = done.stdout.replace(f"{root}/", "").replace(f"{folder}/", "").strip()
    shown = Shown(title.rstrip("."), text.strip(), code, printed, pictures)
    _SEEN[path.stem] = (source, shown)
    return shown


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    lines = ["# Gallery", "Short scripts to copy. Each was run while this site was built."]
    for name, arguments in EXAMPLES.items():
        shown = run(root / "examples" / f"{name}.py", arguments, root)
        files.append(File.generated(config, f"gallery/{name}.md", content=shown.page(name)))
        for picture, content in shown.pictures.items():
            files.append(File.generated(config, f"gallery/{name}-{picture}", content=content))
        lines.append(f"## [{shown.title}]({name}.md)")
        lines += [f"![{shown.title}]({name}-{picture})" for picture in list(shown.pictures)[:1]]
        lines.append(shown.text.partition("\n\n")[0])
    files.append(File.generated(config, "gallery/index.md", content="\n\n".join(lines)))
    return files
