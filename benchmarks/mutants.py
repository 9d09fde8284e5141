"""How many small wrong changes the tests notice.

Every place in the rooms below where one of cosmic-ray's operators can change something is found, a seeded sample
of places is drawn, and at each of them one change is made, in a copy of the checkout. The tests that execute the
changed line (by coverage; those of its room first) run on the copy until the first one fails: the change is noticed.
A change that all of them pass has survived. Code that runs at import or is compiled by Numba has no such tests: there
all tests of the room run.

Left out are annotations, messages, and places where any change is right: see ``_cannot_be_tested``.

    make mutants SEED=0 SAMPLE=200

Results are kept in ``out/mutants/``, one line for each mutant, so a run can be stopped and continued. A survivor is
tried again when tests have changed, or with a larger ``--limit``. The counts of a whole run, with where they come
from, go to ``results/mutants.json``.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import py_compile
import random
import re
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
from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
# Room: the folder that is changed with its examples (docstrings), and the tests that must notice.
ROOMS = {
    path.parent.name: (f"softcut/{path.parent.name}", f"tests/{path.parent.name}")
    for path in sorted((ROOT / "softcut").glob("*/__init__.py"))
}
ELSEWHERE = "softcut/ops/kernels"  # programs for GPUs: tests/gpu checks them
# Of the tests of a stage the quickest that together take this many seconds on the code as it is. On a busy machine,
# where seconds are longer, --limit asks for more.
LIMIT = 60.0
# Arguments that change the speed, how a picture looks, or what happens after a defect elsewhere, but no value.
NO_VALUE = {
    "copy",
    "nogil",
    "cache",
    "zorder",
    "lw",
    "linewidth",
    "alpha",
    "fontsize",
    "figsize",
    "pad",
    "dpi",
} | {
    *("strict", "frozen", "indent", "v0", "ignore_errors"),
    *("bbox_to_anchor", "loc", "ncol", "ncols"),  # where the legend of a plot stands
}
SAME_WITHOUT = {"@staticmethod", "@cache"}  # decorators that change no value
SPEED_ONLY = re.compile(
    r"_(CHUNK|BLOCK|PIECE|AT_ONCE|ROWS_AT_ONCE|TOGETHER) = "
)  # how much is done at a time
LIMITS = {"2**31", "2**32", "2**53", "2**63", "2.0**50", "2.0**53"}
# The number of something is never negative: these signs before 0 mean the same.
COUNT = re.compile(r"(len\(.*\)|\.size|\.nnz|\.numel\(\)|\.shape\[-?\d\]|\.ndim)$")
SAME_FOR_COUNTS = {"Eq_LtE", "LtE_Eq", "Gt_NotEq", "NotEq_Gt"}
# No test has 2^31 nodes or entries: below that number these signs mean the same.
SAME_FOR_FEWER = {"Lt_LtE", "Lt_NotEq"}
# A mutant is too slow when one test takes this many times as long as before, and these seconds more. It is tried
# once more, since the machine may have been busy; too slow twice is noticed, and counted in a column of its own.
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


def _cannot_be_tested(node: Any, operator: str, line: str) -> bool:
    """Whether a change has no effect on values: see ``NO_VALUE`` and the constants below it."""
    if SPEED_ONLY.search(line) or (operator == "core/RemoveDecorator" and line.strip() in SAME_WITHOUT):
        return True
    if node.type == "comparison":
        signs = operator.rpartition("Operator_")[2]
        left, *_, right = (child.get_code().strip() for child in node.children)
        if signs in SAME_FOR_COUNTS and right == "0" and COUNT.search(left):
            return True
        if signs in SAME_FOR_FEWER and right == "2**31":
            return True
    while node is not None and node.parent is not None:
        parent = node.parent
        if parent.type == "argument" and parent.children[0].get_code().strip() in NO_VALUE:
            return True
        if parent.type == "power" and parent.get_code().replace(" ", "") in LIMITS:
            return True
        if parent.type == "classdef" and node.type == "suite" and "Protocol" in parent.children[3].get_code():
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
                if not (
                    _is_text_or_type(own)
                    or _cannot_be_tested(node, name, lines[line - 1])
                    or dotted
                    or "# pragma" in lines[line - 1]
                ):
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
    """A pytest plugin: only some tests, quick ones first, and the first that failed."""

    def __init__(self, seconds: dict[str, float], now: Path) -> None:
        self.known, self.now = seconds, now
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        total: dict[str, float] = {}
        for test, seconds in self.known.items():
            module = test.split("::")[0]
            total[module] = total.get(module, 0.0) + seconds
        items[:] = [item for item in items if item.nodeid in self.known]
        items.sort(
            key=lambda i: (total[i.nodeid.split("::")[0]], i.nodeid.split("::")[0], self.known[i.nodeid])
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        until = time.monotonic() + SLOWER * self.known[nodeid] + MORE
        self.now.write_text(json.dumps({"test": nodeid, "until": until}))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.failed is None:
            self.failed = f"{report.nodeid} (collection)"


def run_tests(copy: Path, answer: Path, seconds: dict[str, float]) -> None:
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
    watch = Watch(seconds, answer.with_suffix(".now"))
    paths = sorted({test.split("::")[0] for test in seconds})
    options = ["-x", "-p", "no:cacheprovider", "--basetemp", str(answer.parent / "tmp"), "--tb=line"]
    code = pytest.main([*options, *paths], plugins=[watch])
    answer.write_text(json.dumps({"code": int(code), "failed": watch.failed}))
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

    def start(self, mutant: Mutant, seconds: dict[str, float]) -> None:
        """Begin these tests on a mutant."""
        self.mutant = mutant
        (self.folder / mutant.file).write_text(mutant.code())
        for suffix in (".json", ".now"):
            self.answer.with_suffix(suffix).unlink(missing_ok=True)
        context: Any = multiprocessing.get_context("fork")
        self.process = context.Process(target=run_tests, args=(self.folder, self.answer, seconds))
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
        return {"outcome": outcome, "test": said["failed"], "took": took}


class Reach:
    """Which tests execute which lines, and how long each takes: one run of all tests on the code as it is.

    Files of tests that were run before are not run again while the package stays as it is.
    """

    def __init__(self, root: Path, folder: Path, jobs: int, limit: float = LIMIT) -> None:
        self.limit = limit
        kept, data = folder / "reach.json", folder / "reach.coverage"
        package = digest_of(sorted((root / "softcut").rglob("*.py")))
        rooms = [path for paths in ROOMS.values() for path in paths]
        files = {str(p.relative_to(root)): digest_of([p]) for f in rooms for p in (root / f).rglob("*.py")}
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("package") != package or not data.exists():
            known = {"files": {}, "seconds": {}}
            data.unlink(missing_ok=True)
        new = sorted(file for file, digest in files.items() if known["files"].get(file) != digest)
        stay = set(files) - set(new)
        self.seconds = {test: s for test, s in known["seconds"].items() if test.split("::")[0] in stay}
        if new:
            print(f"{len(new)} files of tests on the code as it is ...", flush=True)
            self._run(root, new, data, folder, jobs)
            kept.write_text(json.dumps({"package": package, "files": files, "seconds": self.seconds}))
        self._coverage = CoverageData(basename=str(data))
        self._coverage.read()

    def _run(self, root: Path, files: list[str], data: Path, folder: Path, jobs: int) -> None:
        log, settings = folder / "reach.jsonl", folder / "reach.rc"
        log.unlink(missing_ok=True)
        settings.write_text("[run]\nrelative_files = true\n")
        plugins = [
            "--cov=softcut",
            "--cov-append",
            "--cov-context=test",
            "--cov-report=",
            f"--cov-config={settings}",
        ]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--report-log={log}", *plugins]
        run = subprocess.run(
            [*command, "--numprocesses", str(jobs), "--dist", "worksteal", *files],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "COVERAGE_FILE": str(data)},
            capture_output=True,
            text=True,
        )
        if run.returncode not in (0, 5):  # 5: files without tests
            raise SystemExit(f"Tests fail without any change.\n{run.stdout[-3000:]}{run.stderr[-1000:]}")
        for line in map(json.loads, log.read_text().splitlines()):
            if line.get("$report_type") == "TestReport" and line["outcome"] != "skipped":
                test = line["nodeid"]
                self.seconds[test] = round(self.seconds.get(test, 0.0) + line["duration"], 3)

    def stages(self, mutant: Mutant) -> list[dict[str, float]]:
        """The tests that can notice a mutant: those of its room, then the others."""
        lines = self._coverage.contexts_by_lineno(mutant.file)
        first, last = statement((ROOT / mutant.file).read_text(), mutant.line)
        reached = {c.rpartition("|")[0] for n in range(first, last + 1) for c in lines.get(n, ()) if c}
        own = tuple(f"{folder}/" for folder in ROOMS[mutant.room])
        reached &= set(self.seconds)
        if not reached:  # at import, or compiled: every test of the room may notice
            reached = {test for test in self.seconds if test.startswith(own)}
        stages = []
        for tests in (
            [t for t in reached if t.startswith(own)],
            [t for t in reached if not t.startswith(own)],
        ):
            total, chosen = 0.0, {}
            for test in sorted(tests, key=self.seconds.__getitem__):
                total += self.seconds[test]
                if total > self.limit:
                    break
                chosen[test] = self.seconds[test]
            if chosen:
                stages.append(chosen)
        return stages


def statement(source: str, line: int) -> tuple[int, int]:
    """First and last line of the innermost statement at a line; of a compound one its head."""
    best = (line, line)
    size = sys.maxsize
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            if node.lineno <= line <= last and last - node.lineno < size:
                best, size = (node.lineno, last), last - node.lineno
    return best


def digest_of(paths: list[Path]) -> str:
    """Of the content of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


# ------------------------------------------------------------------------------------------------ report


def keep_counts(
    path: Path,
    seed: int,
    results: list[dict[str, Any]],
    count: dict[str, tuple[int, int]],
) -> None:
    """Put the counts of a seed into the file of results; what was noticed first, of the same places, stays."""
    from softcut.files import atomic_json
    from softcut.provenance import origin

    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"seeds": []}
    told = {name: recorded.pop(name) for name in ("commit", "device", "command", "date") if name in recorded}
    before = {entry["seed"]: {**told, **entry} for entry in recorded["seeds"]}
    old = {room["room"]: room for room in before.get(seed, {}).get("rooms", [])}
    rooms = []
    for room, (places, _) in count.items():
        own = [r for r in results if r["room"] == room]
        if not own:  # nothing was drawn there
            continue
        noticed = sum(r["outcome"] != "survived" for r in own)
        same = room in old and (old[room]["places"], old[room]["run"]) == (places, len(own))
        rooms.append(
            {
                "room": room,
                "places": places,
                "run": len(own),
                "noticed_first": old[room]["noticed_first"] if same else noticed,
                "noticed_now": noticed,
                "too_slow": sum(r["outcome"] == "too slow" for r in own),
            }
        )
    before[seed] = {"seed": seed, "rooms": rooms, **origin()}
    atomic_json(path, {**recorded, "seeds": [before[key] for key in sorted(before)]})


def report(results: list[dict[str, Any]], count: dict[str, tuple[int, int]]) -> str:
    """The table by room and the list of survivors, as Markdown."""
    lines = [
        "| room | places | run | noticed | of these too slow | survived | share noticed |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for room in [*ROOMS, "all"]:
        own = [r for r in results if room in (r["room"], "all")]
        lost = sum(r["outcome"] == "survived" for r in own)
        slow = sum(r["outcome"] == "too slow" for r in own)
        share = f"{100 * (len(own) - lost) / len(own):.0f} %" if own else ""
        total = count[room][0] if room in count else sum(places for places, _ in count.values())
        lines.append(f"| {room} | {total} | {len(own)} | {len(own) - lost} | {slow} | {lost} | {share} |")
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
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds of tests, own and others, per mutant"
    )
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS), help="run only these")
    parser.add_argument("--report", action="store_true", help="print the table of what was run so far")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mutants.json")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    mutants, count = draw(options.seed, options.sample)
    mutants = [m for m in mutants if m.room in options.rooms]
    kept = options.out / f"seed-{options.seed}.jsonl"
    known = {key(r): r for r in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    results, waiting = [], []
    tests = digest_of(sorted((ROOT / "tests").rglob("*.py")))
    for mutant in mutants:
        digest = digest_of([ROOT / mutant.file])
        before, after = mutant.change()
        record = {
            **asdict(mutant),
            "digest": digest,
            "before": before,
            "after": after,
            "tests": tests,
            "limit": options.limit,
        }
        old = known.get(key(record))
        same = old is not None and old["tests"] == tests and old.get("limit", LIMIT) >= options.limit
        current = same or (old is not None and old["outcome"] != "survived")
        if old is not None and (current or options.report):
            results.append(old)
        else:
            waiting.append((mutant, record))
    if options.report:
        print(report(results, count))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core for each of the jobs
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported; the tests of kernels need it
    for name in SHARED_IMPORTS:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder) / str(i)) for i in range(max(1, options.jobs))]
        reach = Reach(copies[0].folder, options.out, options.jobs, options.limit)
        free, busy = copies, {}
        while waiting or busy:
            while waiting and free:
                mutant, record = waiting.pop(0)
                copy = free.pop()
                stages = reach.stages(mutant)
                copy.start(mutant, stages.pop(0))
                busy[copy.process.sentinel] = (copy, record, stages)
            wait(list(busy), timeout=1.0)
            for sentinel, (copy, record, stages) in list(busy.items()):
                if copy.process.is_alive() and copy.late() is None:
                    continue
                del busy[sentinel]
                outcome = copy.finish()
                if outcome["outcome"] == "survived" and stages:
                    copy.start(copy.mutant, stages.pop(0))
                    busy[copy.process.sentinel] = (copy, record, stages)
                    continue
                free.append(copy)
                if outcome["outcome"] == "too slow" and "late" not in record:
                    waiting.append((copy.mutant, record | {"late": outcome["test"]}))
                    print(f"too slow, to be tried again: {outcome['test']}", flush=True)
                    continue
                record |= outcome
                results.append(record)
                with kept.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                place = f"{record['file']}:{record['line']}"
                print(
                    f"{len(results)}/{len(mutants)} {record['outcome']} ({record['took']} s) {place}",
                    flush=True,
                )
    text = report(results, count)
    (options.out / f"seed-{options.seed}.md").write_text(text + "\n")
    if options.rooms == list(ROOMS):
        keep_counts(options.results, options.seed, results, count)
    print(text)


if __name__ == "__main__":
    main()
