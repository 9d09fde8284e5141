"""How many small wrong changes the tests notice.

Every place in the rooms below where one of cosmic-ray's operators can change something is found, a seeded sample
of places is drawn, and at each of them one change is made, in a copy of the checkout. The tests of the room run
on the copy until the first one fails: the change is noticed. A change that all of them pass has survived.

    make mutants SEED=0 SAMPLE=200

Results are kept in ``out/mutants/``, one line for each mutant, so a run can be stopped and continued. A survivor is
tried again when the tests of its room have changed. The counts of a whole run, with where they come from, go to
``results/mutants.json``.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import functools
import hashlib
import importlib
import json
import multiprocessing
import os
import py_compile
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
import parso
import pytest
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent
# Room: the folder that is changed with its examples (docstrings), and the tests that must notice.
ROOMS = {
    path.parent.name: (f"softcut/{path.parent.name}", f"tests/{path.parent.name}")
    for path in sorted((ROOT / "softcut").glob("*/__init__.py"))
}
ELSEWHERE = "softcut/ops/kernels"  # programs for GPUs: tests/gpu checks them
# Of a room's tests the quickest that together take this many seconds of a processor on the code as it is.
LIMIT = 60.0
# A mutant is too slow, and noticed, when one test takes this many times as long as before, and these seconds more.
SLOWER, MORE = 5.0, 30.0
MEMORY = 8 << 30  # bytes one mutant may have
# Imported once, before the processes of the mutants are split off; softcut itself is imported by each.
SHARED_IMPORTS = ("torch", "torch_geometric", "sklearn.cluster", "scipy.sparse", "pandas", "hypothesis")

# Replacements within these groups; others (a float shifted to the left) fail wherever they are reached.
BINARY = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitOr", "BitAnd", "BitXor"},
    {"LShift", "RShift"},
)
COMPARISON = ({"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}, {"Is", "IsNot"})


@dataclass(frozen=True)
class Mutant:
    """One change: which operator, at which of its places in which file."""

    room: str
    file: str
    line: int
    column: int
    operator: str
    occurrence: int

    def code(self) -> str:
        """The changed file."""
        operator = cosmic_ray.plugins.get_operator(self.operator)()
        changed = mutate_code((ROOT / self.file).read_text(), operator, self.occurrence)
        assert changed is not None
        return changed

    def change(self) -> tuple[str, str]:
        """What differs: the text before and after, without the lines that stayed."""
        old, new = (ROOT / self.file).read_text().splitlines(), self.code().splitlines()
        while old and new and old[-1] == new[-1]:
            old.pop(), new.pop()
        same = (a == b for a, b in zip(old, new, strict=False))
        first = next((i for i, equal in enumerate(same) if not equal), min(len(old), len(new)))
        return " ".join(" ".join(old[first:]).split()), " ".join(" ".join(new[first:]).split())


# ------------------------------------------------------------------------------------------------ places


def _plausible(operator: str) -> bool:
    """Whether an operator exchanges two signs of one kind, or is of another kind."""
    for prefix, groups in (("ReplaceBinaryOperator_", BINARY), ("ReplaceComparisonOperator_", COMPARISON)):
        name = operator.removeprefix("core/")
        if name.startswith(prefix):
            before, after = name.removeprefix(prefix).split("_")
            return any(before in group and after in group for group in groups)
    return True


def _is_text_or_type(node: Any) -> bool:
    """Whether a place is in an annotation, in formatted text, in what is raised, or under ``TYPE_CHECKING``."""
    while node is not None and node.parent is not None:
        parent = node.parent
        if node.type in ("fstring", "raise_stmt", "import_from", "import_name"):
            return True
        if parent.type == "annassign" and node is parent.children[1]:
            return True
        if parent.type == "tfpdef" and node is parent.children[-1]:
            return True
        if parent.type == "funcdef" and node is parent.annotation:
            return True
        if parent.type == "if_stmt" and "TYPE_CHECKING" in parent.children[1].get_code():
            return True
        node = parent
    return False


def places(room: str) -> Iterator[tuple[tuple[str, int, int], Mutant]]:
    """Every possible mutant of a room with the place it changes."""
    names = [
        name
        for name in cosmic_ray.plugins.operator_names()
        if not cosmic_ray.plugins.get_operator(name).arguments() and _plausible(name)
    ]
    for path in sorted((ROOT / ROOMS[room][0]).rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if file.startswith(ELSEWHERE):
            continue
        source = path.read_text()
        lines = source.splitlines()
        nodes = list(ast_nodes(parso.parse(source)))
        for name in names:
            operator = cosmic_ray.plugins.get_operator(name)()
            recorded = ((node, start) for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, (node, (line, column)) in enumerate(recorded):
                # The statements of an `if` have it for a parent, its condition is a place of the `if` itself.
                own = node.children[1] if node.type == "if_stmt" else node
                # cosmic-ray cannot replace an exception with a dot in its name.
                dotted = name == "core/ExceptionReplacer" and "." in lines[line - 1]
                if not (_is_text_or_type(own) or dotted or "# pragma" in lines[line - 1]):
                    yield (file, line, column), Mutant(room, file, line, column, name, occurrence)


def draw(seed: int, sample: int) -> tuple[list[Mutant], dict[str, tuple[int, int]]]:
    """A sample: places first, each with the same chance, then one of the changes that are possible there."""
    by_place: dict[tuple[str, int, int], list[Mutant]] = {}
    count = {}
    for room in ROOMS:
        before = len(by_place)
        mutants = 0
        for place, mutant in places(room):
            by_place.setdefault(place, []).append(mutant)
            mutants += 1
        count[room] = (len(by_place) - before, mutants)
    chance = random.Random(seed)
    chosen = chance.sample(sorted(by_place), min(sample, len(by_place)))
    return [chance.choice(by_place[place]) for place in chosen], count


# ------------------------------------------------------------------------------------------------- tests


class Watch:
    """A pytest plugin: quick tests first, the time of each, and the first that failed."""

    def __init__(self, seconds: dict[str, float], left_out: set[str], now: Path) -> None:
        self.known, self.left_out, self.now = seconds, left_out, now
        self.seconds: dict[str, float] = {}
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.left_out]
        total: dict[str, float] = {}
        for item in items:
            module = item.nodeid.split("::")[0]
            total[module] = total.get(module, 0.0) + self.known.get(item.nodeid, 0.0)
        items.sort(
            key=lambda i: (
                total[i.nodeid.split("::")[0]],
                i.nodeid.split("::")[0],
                self.known.get(i.nodeid, 0),
            )
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began = sum(
            os.times()[:4]
        )  # of this process and its children: other work on the machine does not count
        allowed = SLOWER * self.known.get(nodeid, LIMIT) + MORE
        self.now.write_text(json.dumps({"test": nodeid, "until": time.monotonic() + allowed}))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = round(sum(os.times()[:4]) - self.began, 2)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = f"{report.nodeid} (collection)"


def run_tests(
    copy: Path, paths: list[str], answer: Path, seconds: dict[str, float], left_out: list[str]
) -> None:
    """In a process of its own: tests on a copy; the outcome goes into a file."""
    os.setsid()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(copy)
    sys.path[:] = [
        str(copy),
        *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, ROOT / "benchmarks")),
    ]
    os.environ.update(PYTHONPATH=str(copy), TMPDIR=str(answer.parent))
    tempfile.tempdir = None
    output = os.open(answer.with_suffix(".txt"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    watch = Watch(seconds, set(left_out), answer.with_suffix(".now"))
    options = ["-x", "-p", "no:cacheprovider", "--basetemp", str(answer.parent / "tmp"), "--tb=line"]
    code = pytest.main([*options, *paths], plugins=[watch])
    answer.write_text(json.dumps({"code": int(code), "failed": watch.failed, "seconds": watch.seconds}))
    os._exit(0)


class Copy:
    """A copy of the checkout in which one mutant at a time is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.answer = folder / "answer.json"
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        # Compiled files that are checked by content: a change of one sign keeps a file's size, and its second.
        compileall.compile_dir(
            self.folder / "softcut", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )
        self.mutant: Mutant | None = None

    def start(self, paths: list[str], mutant: Mutant | None, tests: dict[str, Any]) -> None:
        """Begin tests, on a mutant or on the code as it is."""
        self.mutant = mutant
        if mutant is not None:
            (self.folder / mutant.file).write_text(mutant.code())
        for suffix in (".json", ".now"):
            self.answer.with_suffix(suffix).unlink(missing_ok=True)
        context: Any = multiprocessing.get_context("fork")
        arguments = (self.folder, paths, self.answer, tests["seconds"], tests["left_out"])
        self.process = context.Process(target=run_tests, args=arguments)
        self.began = time.monotonic()
        self.process.start()

    def late(self) -> str | None:
        """The test that takes too long, if there is one."""
        try:
            now = json.loads(self.answer.with_suffix(".now").read_text())
        except (OSError, ValueError):  # no test has begun yet, or the file is being written
            now = {"test": "collection", "until": self.began + 5 * LIMIT}  # a busy machine takes minutes
        return now["test"] if time.monotonic() > now["until"] else None

    def finish(self) -> dict[str, Any]:
        """The outcome; ends the tests if they still run."""
        late = self.late() if self.process.is_alive() else None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        if self.mutant is not None:
            shutil.copy2(ROOT / self.mutant.file, self.folder / self.mutant.file)
        for path in self.answer.parent.iterdir():
            if path != self.folder and path.stem != self.answer.stem:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        took = round(time.monotonic() - self.began, 1)
        if late is not None:
            return {"outcome": "too slow", "test": late, "took": took}
        if not self.answer.exists():
            return {"outcome": "crashed", "took": took}
        said = json.loads(self.answer.read_text())
        outcome = "survived" if said["code"] == 0 else "noticed"
        return {"outcome": outcome, "test": said["failed"], "took": took, "seconds": said["seconds"]}


def unchanged(room: str, copy: Copy, folder: Path) -> dict[str, Any]:
    """Times of a room's tests on the code as it is, and the slow ones that are left out to stay within the limit.

    Files of tests that were run before are not run again while the package stays as it is.
    """
    kept = folder / f"unchanged-{room}.json"
    root = copy.folder  # as it was when the run began
    package = digest_of(sorted((root / "softcut").rglob("*.py")))
    files = {str(p.relative_to(root)): digest_of([p]) for f in ROOMS[room] for p in (root / f).rglob("*.py")}
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("package") != package:
        known = {"files": {}, "seconds": {}}
    new = [file for file, digest in files.items() if known["files"].get(file) != digest]
    seconds = {
        test: time for test, time in known["seconds"].items() if test.split("::")[0] in set(files) - set(new)
    }
    if new:
        print(f"{room}: {len(new)} files of tests on the code as it is ...", flush=True)
        copy.start(new, None, {"seconds": {}, "left_out": []})
        copy.process.join()
        result = copy.finish()
        if result["outcome"] != "survived":
            said = copy.answer.with_suffix(".txt")
            text = said.read_text()[-3000:] if said.exists() else ""
            raise SystemExit(f"{room}: its tests fail without any change ({result.get('test')}).\n{text}")
        seconds |= result["seconds"]
    slowest = sorted(seconds, key=lambda test: -seconds[test])
    left_out: list[str] = []
    while sum(seconds[test] for test in slowest[len(left_out) :]) > LIMIT:
        left_out.append(slowest[len(left_out)])
    known = {"package": package, "files": files, "seconds": seconds, "left_out": left_out}
    kept.write_text(json.dumps(known))
    return known


def digest_of(paths: list[Path]) -> str:
    """Of the content of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


@functools.cache  # files that change during a run are not in the copies
def tests_digest(room: str) -> str:
    """Of all files with tests of a room."""
    return digest_of(sorted((ROOT / ROOMS[room][1]).rglob("*.py")))


# ------------------------------------------------------------------------------------------------ report


def keep_counts(
    path: Path,
    seed: int,
    results: list[dict[str, Any]],
    count: dict[str, tuple[int, int]],
    tests: dict[str, Any],
) -> None:
    """Put the counts of a seed into the file of results; what was noticed first, of the same places, stays."""
    from softcut.files import atomic_json
    from softcut.provenance import origin

    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"seeds": []}
    told = {name: recorded.pop(name) for name in ("commit", "device", "command") if name in recorded}
    before = {entry["seed"]: {**told, **entry} for entry in recorded["seeds"]}
    old = {room["room"]: room for room in before.get(seed, {}).get("rooms", [])}
    rooms = []
    for room, (places, _) in count.items():
        own = [r for r in results if r["room"] == room]
        if not own:  # nothing was drawn there
            continue
        noticed = sum(r["outcome"] != "survived" for r in own)
        same = room in old and (old[room]["places"], old[room]["run"]) == (places, len(own))
        known = tests[room]
        rooms.append(
            {
                "room": room,
                "places": places,
                "run": len(own),
                "noticed_first": old[room]["noticed_first"] if same else noticed,
                "noticed_now": noticed,
                "tests": len(known["seconds"]),
                "tests_left_out": len(known["left_out"]),
            }
        )
    before[seed] = {"seed": seed, "rooms": rooms, **origin()}
    atomic_json(path, {**recorded, "seeds": [before[key] for key in sorted(before)]})


def report(results: list[dict[str, Any]], count: dict[str, tuple[int, int]], tests: dict[str, Any]) -> str:
    """The table by room and the list of survivors, as Markdown."""
    lines = [
        "| room | places | run | noticed | survived | share noticed | tests (left out as slow) |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for room in [*ROOMS, "all"]:
        own = [r for r in results if room in (r["room"], "all")]
        lost = sum(r["outcome"] == "survived" for r in own)
        share = f"{100 * (len(own) - lost) / len(own):.0f} %" if own else ""
        known = tests.get(room)
        words = f"{len(known['seconds'])} ({len(known['left_out'])})" if known else ""
        total = count[room][0] if room in count else sum(places for places, _ in count.values())
        lines.append(f"| {room} | {total} | {len(own)} | {len(own) - lost} | {lost} | {share} | {words} |")
    lines += ["", "Survivors:", ""]
    for r in sorted(results, key=lambda r: (r["file"], r["line"])):
        if r["outcome"] == "survived":
            lines.append(f"- `{r['file']}:{r['line']}` `{r['before']}` became `{r['after']}`")
    return "\n".join(lines)


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("file", "digest", "operator", "occurrence"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS), help="run only these")
    parser.add_argument("--report", action="store_true", help="print the table of what was run so far")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mutants.json")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    mutants, count = draw(options.seed, options.sample)
    mutants = [m for m in mutants if m.room in options.rooms]
    kept = options.out / f"seed-{options.seed}.jsonl"
    known = {key(r): r for r in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    results, waiting = [], []
    for mutant in mutants:
        digest = digest_of([ROOT / mutant.file])
        before, after = mutant.change()
        record = {
            **asdict(mutant),
            "digest": digest,
            "before": before,
            "after": after,
            "tests": tests_digest(mutant.room),
        }
        old = known.get(key(record))
        current = old is not None and (old["outcome"] != "survived" or old["tests"] == record["tests"])
        if old is not None and (current or options.report):
            results.append(old)
        else:
            waiting.append((mutant, record))
    tests: dict[str, Any] = {}
    if options.report:
        for path in options.out.glob("unchanged-*.json"):
            tests[path.stem.removeprefix("unchanged-")] = json.loads(path.read_text())
        print(report(results, count, tests))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core for each of the jobs
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported; the tests of kernels need it
    for name in SHARED_IMPORTS:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(i)) for i in range(max(1, options.jobs))]
        for room in {m.room: None for m in mutants}:
            tests[room] = unchanged(room, copies[0], options.out)
        free, busy = copies, {}
        while waiting or busy:
            while waiting and free:
                mutant, record = waiting.pop(0)
                copy = free.pop()
                copy.start(list(reversed(ROOMS[mutant.room])), mutant, tests[mutant.room])
                busy[copy.process.sentinel] = (copy, record)
            wait(list(busy), timeout=1.0)
            for sentinel, (copy, record) in list(busy.items()):
                if copy.process.is_alive() and copy.late() is None:
                    continue
                del busy[sentinel]
                record |= {name: value for name, value in copy.finish().items() if name != "seconds"}
                free.append(copy)
                results.append(record)
                with kept.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                place = f"{record['file']}:{record['line']}"
                print(
                    f"{len(results)}/{len(mutants)} {record['outcome']} ({record['took']} s) {place}",
                    flush=True,
                )
    text = report(results, count, tests)
    (options.out / f"seed-{options.seed}.md").write_text(text + "\n")
    if options.rooms == list(ROOMS):
        keep_counts(options.results, options.seed, results, count, tests)
    print(text)


if __name__ == "__main__":
    main()
