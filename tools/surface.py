"""The public surface: what each room exports, and every command with its options; beside another checkout.

    python tools/surface.py [--against CHECKOUT]

With another checkout, only what differs is printed: a minus for what only it has, a plus for what only this one has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Run in a process of each checkout.
LIST = """
import importlib, inspect, json, pkgutil, re, warnings

warnings.simplefilter("ignore")
import softcut
import typer.main
from softcut.cli.app import app
from typer.testing import CliRunner

lines = [f"softcut.{name}" for name in softcut.__all__]
for room in pkgutil.iter_modules(softcut.__path__):
    module = importlib.import_module(f"softcut.{room.name}")
    lines += [f"softcut.{room.name}.{name}" for name in getattr(module, "__all__", ())]
for name in ("GraphClustering", "MinCutClustering", "GraphClassification", "segment_image", "read_graph"):
    signature = inspect.signature(getattr(softcut, name))
    lines += [f"softcut.{name}({argument})" for argument in signature.parameters if argument != "self"]


def commands(command, path):
    for option in command.params:
        words = option.opts if option.param_type_name == "option" else [option.name]
        lines.extend(f"{path} {word}" for word in words)
    for name, each in getattr(command, "commands", {}).items():
        lines.append(f"{path} {name}")
        commands(each, f"{path} {name}")
        if path == "$ softcut reproduce" and not each.params:  # read by argparse, in softcut.paper
            text = CliRunner().invoke(app, ["reproduce", name, "--help"]).output
            lines.extend(f"{path} {name} {word}" for word in re.findall(r"(?<=[[ ,])--?[a-z0-9][-a-z0-9]*", text))


commands(typer.main.get_command(app), "$ softcut")
print(json.dumps(sorted(set(lines))))
"""


def surface(checkout: Path) -> list[str]:
    """One line for each name, argument, command and option."""
    root = str(checkout.resolve())
    done = subprocess.run(
        [sys.executable, "-c", LIST],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{root}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="the checkout to compare with")
    against = parser.parse_args().against
    here = surface(ROOT)
    if against is None:
        print("\n".join(here))
        return
    other = surface(against)
    print(f"{len(other)} names, arguments, commands and options there, {len(here)} here")
    print(
        "\n".join(
            [f"- {line}" for line in other if line not in here]
            + [f"+ {line}" for line in here if line not in other]
        )
    )


if __name__ == "__main__":
    main()
