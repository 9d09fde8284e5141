"""Lines of code per room, of tests and of benchmarks, and words of the documentation; beside another commit.

    python tools/lines.py [--against COMMIT]

Counts every line of the Python files that git tracks, and every word of README.md and of the pages in docs/.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter

# Rooms that had another name, and files that were counted in another room.
FORMER = {"softcut/classification": "softcut/learning"}


def listed(commit: str) -> list[str]:
    """The files of a commit."""
    words = ["git", "ls-tree", "-r", "--name-only", commit]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def text_of(commit: str, path: str) -> str:
    words = ["git", "show", f"{commit}:{path}"]
    return subprocess.run(words, capture_output=True, text=True, check=True, errors="replace").stdout


def count(commit: str) -> Counter[str]:
    """Lines per room (softcut/ops, ...), of tests, benchmarks and tools; words of docs."""
    total: Counter[str] = Counter()
    for path in listed(commit):
        parts = path.split("/")
        if path.endswith(".py") and parts[0] in ("softcut", "tests", "benchmarks", "tools"):
            lines = text_of(commit, path).count("\n")
            total[f"{parts[0]}/, lines"] += lines
            if parts[0] == "softcut" and len(parts) > 2:
                room = "/".join(parts[:2])
                total[FORMER.get(room, room)] += lines
        elif path.endswith(".md") and parts[0] == "docs":
            total["docs/, words"] += len(text_of(commit, path).split())
        elif path == "README.md":
            total["README.md, words"] += len(text_of(commit, path).split())
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="a commit to compare with")
    against = parser.parse_args().against
    now = count("HEAD")
    before = count(against) if against else Counter()
    print("| | before | now |\n|---|---|---|" if against else "| | now |\n|---|---|")
    for name in sorted(now | before):
        old = f" {before[name]:,} |" if against else ""
        print(f"| {name} |{old} {now[name]:,} |")


if __name__ == "__main__":
    main()
