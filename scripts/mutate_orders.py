#!/usr/bin/env python3
"""Weakens each explicit memory order one step and shows that a model then fails.

usage: scripts/mutate_orders.py [--all | UNIT...] [--record] [--jobs N] [--limit SECONDS]
    (none)     the units that changed since they were recorded, and those that share a file with them
    --all      every unit
    UNIT...    these units, changed or not, e.g. parker
    --record   if nothing failed, records the units that ran in scripts/order_mutants.json

A unit is one model.  It changed if the SHA-256 of a file differs from the recorded one: the model, a
helper in tests/model/ that it includes, or a source that it mutates.  Other headers and this script
are not hashed: `scripts/check.sh full` runs every unit.

A model, tests/model/<unit>_model.cpp, names the files that it covers:  // mutates: <file>...
Each memory order in their code is weakened alone and the models are run.  A model is compiled once,
with a copy of its files in which the environment chooses the order to weaken:

    killed     a model found a failure: the order is needed, and the model would notice
    survived   it found none: the order is too strong, or the model too weak
    excused    survived, and the source has the reason, on the line or in the comment just above:
               // not mutated: <reason>
    timed out  it neither failed nor ended: no proof, counted as a survivor
    error      it crashed: no proof

The script fails on survivors, errors, and models that name no file or fail unchanged.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from check_atomics import code_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELACY = pathlib.Path("/usr/include")
COMPILE = ["g++", "-std=c++20", "-O1", "-w"]
RECORD = ROOT / "scripts/order_mutants.json"  # unit -> file -> SHA-256, when it last passed
LAYERS = ("base", "queue")  # whose bodies the models call
CHOICE = "VERGE_MUTANT"  # the environment's word for the mutant to be
PRELUDE = f'''#include <cstdlib>
inline const char* const verge_chosen = std::getenv("{CHOICE}");
inline const int verge_mutant = verge_chosen ? std::atoi(verge_chosen) : -1;
'''

ORDER = re.compile(r"\bmemory_order(?:_|::)(consume|acquire|release|acq_rel|seq_cst)\b")
ANY_ORDER = re.compile(r"\bmemory_order(?:_|::)\w+")
MUTATES = re.compile(r"^//\s*mutates:\s*(.+)$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
EXCUSE = re.compile(r"//.*\bnot mutated:\s*\S")

LOADS = {"load", "test", "wait"}
STORES = {"store", "clear"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: pathlib.Path  # relative to the root
    line: int
    begin: int  # the position of the order's last word in the file
    end: int
    operation: str
    old: str
    new: str
    excused: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operation}: {self.old} -> {self.new}"


def operation_at(code: str, at: int) -> tuple[str, int]:
    """The function in whose argument list `at` stands, and where that list begins."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if code[i] in ")]}":
            depth += 1
        elif code[i] in "([{":
            if depth > 0:
                depth -= 1
                continue
            name = re.search(r"(\w+)\s*$", code[:i])
            if code[i] == "(" and name:
                return name[1], i + 1
        elif code[i] == ";" and depth == 0:
            break
    return "?", at


def weaker(order: str, operation: str, is_failure: bool) -> list[str]:
    if order in ("acquire", "release", "consume"):
        return ["relaxed"]
    if order == "acq_rel":
        return ["acquire", "release"]
    if is_failure or operation in LOADS:
        return ["acquire"]
    return ["release"] if operation in STORES else ["acq_rel"]


def is_excused(lines: list[str], index: int) -> bool:
    if EXCUSE.search(lines[index]):
        return True
    while index > 0 and lines[index - 1].lstrip().startswith("//"):
        index -= 1
        if EXCUSE.search(lines[index]):
            return True
    return False


def mutants_of(path: pathlib.Path, text: str) -> list[Mutant]:
    code = code_of(text)
    lines = text.splitlines()
    found = []
    for match in ORDER.finditer(code):
        operation, arguments = operation_at(code, match.start())
        is_failure = operation.startswith("compare_exchange") and bool(
            ANY_ORDER.search(code, arguments, match.start()))
        line = code.count("\n", 0, match.start())
        for new in weaker(match[1], operation, is_failure):
            found.append(Mutant(path, line + 1, match.start(1), match.end(1),
                                operation + (" failure" if is_failure else ""), match[1], new,
                                is_excused(lines, line)))
    return found


def with_choices(text: str, numbered: list[tuple[int, Mutant]]) -> str:
    """The file's text, in which relacy's `order, where` depends on the chosen mutant."""
    places: dict[tuple[int, int], list[tuple[int, Mutant]]] = {}
    for number, mutant in numbered:
        places.setdefault((mutant.begin, mutant.end), []).append((number, mutant))
    for (begin, end), here in sorted(places.items(), reverse=True):
        name = re.search(r"(?:std\s*::\s*)?memory_order(?:_|::)$", text[:begin])
        chosen = "".join(f"verge_mutant == {number} ? rl::mo_{mutant.new} : "
                         for number, mutant in here)
        text = f"{text[: name.start()]}({chosen}rl::mo_{here[0][1].old}), ${text[end:]}"
    return text


def copy_relacy(scratch: pathlib.Path) -> pathlib.Path:
    """A relacy whose compare_exchange takes every pair of orders.

    C++17 lets the failure order be stronger than the success order.  Relacy takes such a pair for
    a weaker one, or lets the exchange fail: a mutant would die of that, and prove nothing.
    """
    include = scratch / "relacy"
    shutil.copytree(RELACY / "relacy", include / "relacy")
    header = include / "relacy" / "atomic.hpp"
    text = header.read_text()
    begin = re.search(
        r"bool compare_exchange\(bool_t<spurious_failures>, T& cmp, T xchg, memory_order mo, "
        r"memory_order failure_mo, debug_info_param info\)\s*\{", text)
    end = text.find("T exchange(T xchg", begin.end() if begin else 0)
    if not begin or end < 0:
        sys.exit("mutate_orders: this relacy's compare_exchange is not the one known here")
    orders = {"relaxed": "relaxed", "consume": "acquire", "acquire": "acquire",
              "release": "release", "acq_rel": "acq_rel", "seq_cst": "seq_cst"}
    body = ""
    for success, rmw in orders.items():
        for failure in ("relaxed", "consume", "acquire", "seq_cst"):
            body += (f"        if (mo == mo_{success} && failure_mo == mo_{failure})\n"
                     f"            return compare_swap_impl<spurious_failures, mo_{success}, "
                     f"&thread_info_base::atomic_rmw_{rmw}, mo_{failure}, "
                     f"&thread_info_base::atomic_load_{orders[failure]}_rmw>(cmp, xchg, info);\n")
    body += "        RL_VERIFY(false);\n        return false;\n    }\n\n    "
    header.write_text(text[: begin.end()] + "\n" + body + text[end:])
    return include


class Runner:
    def __init__(self, scratch: pathlib.Path, limit: float,
                 jobs: dict[Mutant, list[pathlib.Path]]):
        self.scratch = scratch
        self.limit = limit
        self.relacy = copy_relacy(scratch)
        self.numbers = {mutant: number for number, mutant in enumerate(jobs)}
        self.jobs = jobs
        self.prelude = scratch / "prelude.hpp"
        self.prelude.write_text(PRELUDE)
        self.objects = self.compile_library()

    def compile_library(self) -> list[pathlib.Path]:
        """The bodies that a model may call: they are not mutated, so once is enough."""
        sources = sorted(s for layer in LAYERS for s in (ROOT / "src" / layer).rglob("*.cpp"))
        objects = [self.scratch / f"{source.parent.name}_{source.stem}.o" for source in sources]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in pool.map(
                    lambda pair: subprocess.run(
                        [*COMPILE, "-I", ROOT / "include", "-I", ROOT / "src", "-c", pair[0],
                         "-o", pair[1]], capture_output=True, text=True), zip(sources, objects)):
                if done.returncode != 0:
                    sys.exit(f"mutate_orders: the library does not compile\n{done.stderr}")
        return objects

    def program(self, model: pathlib.Path) -> pathlib.Path:
        return self.scratch / model.stem

    def compile(self, model: pathlib.Path) -> str:
        """Makes the program with all mutants of the model's files; what the compiler says if not."""
        tree = self.scratch / f"{model.stem}_tree"
        for folder in ("include", "src"):
            if (ROOT / folder).exists():
                shutil.copytree(ROOT / folder, tree / folder)
        mine = [m for m, models in self.jobs.items() if model in models]
        for path in sorted({m.path for m in mine}):
            file = tree / path
            file.write_text(with_choices(
                file.read_text(), [(self.numbers[m], m) for m in mine if m.path == path]))
        done = subprocess.run(
            [*COMPILE, "-include", self.prelude, "-I", tree / "include", "-I", tree / "src",
             "-I", ROOT / "tests", "-isystem", self.relacy, model, *self.objects,
             "-o", self.program(model), "-pthread"],
            capture_output=True, text=True, errors="replace")
        return "" if done.returncode == 0 else done.stderr or "no reason given"

    def run(self, model: pathlib.Path, mutant: Mutant | None) -> tuple[str, str]:
        """(`passed`, `failed`, `timed out` or `error`, what was printed)."""
        chosen = str(self.numbers[mutant]) if mutant else "-1"
        try:
            ran = subprocess.run([self.program(model)], capture_output=True, text=True,
                                 errors="replace", timeout=self.limit,
                                 env={**os.environ, CHOICE: chosen})
        except subprocess.TimeoutExpired:
            return "timed out", ""
        if ran.returncode not in (0, 1):  # a crash is no proof
            return "error", ran.stdout + ran.stderr
        return ("passed" if ran.returncode == 0 else "failed"), ran.stdout + ran.stderr

    def run_all(self, mutant: Mutant, models: list[pathlib.Path]) -> tuple[str, str]:
        """The first failure or error of the models; else the worst of what they said."""
        worst = "passed", ""
        for model in sorted(models, key=lambda m: m.stem != f"{mutant.path.stem}_model"):
            result = self.run(model, mutant)
            if result[0] in ("failed", "error"):
                return result
            worst = result if result[0] == "timed out" else worst
        return worst


def verdict(result: str, mutant: Mutant) -> str:
    if result == "failed":
        return "killed"
    if result == "error":
        return "error"
    if mutant.excused:
        return "excused"
    return "survived" if result == "passed" else "timed out"


def unmodelled(covered: set[pathlib.Path]) -> list[str]:
    """The files with orders to weaken that no model covers."""
    found = []
    for path in sorted([*ROOT.glob("include/**/*.hpp"), *ROOT.glob("src/**/*.?pp")]):
        relative = path.relative_to(ROOT)
        mutants = [] if relative in covered else mutants_of(relative, path.read_text())
        if mutants:
            found.append(f"{relative} ({len(mutants)} mutants)")
    return found


def unit_of(model: pathlib.Path) -> str:
    return model.stem.removesuffix("_model")


def mutated_by(model: pathlib.Path) -> list[pathlib.Path]:
    return [pathlib.Path(f) for m in MUTATES.finditer(model.read_text()) for f in m[1].split()]


def inputs_of(model: pathlib.Path, root: pathlib.Path) -> list[pathlib.Path]:
    """What a unit is made of: the model, the helpers beside it that it includes, what it mutates."""
    found, ahead = {}, [model]
    while ahead:
        file = ahead.pop()
        if file not in found:
            found[file] = None
            ahead += [helper for name in INCLUDE.findall(file.read_text())
                      if (helper := model.parent / name).is_file()]
    found.update(dict.fromkeys(root / file for file in mutated_by(model)))
    return sorted(found)


def hashes_of(model: pathlib.Path, root: pathlib.Path) -> dict[str, str]:
    return {str(file.relative_to(root)):
            hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing"
            for file in inputs_of(model, root)}


def why_changed(recorded: dict[str, str] | None, current: dict[str, str]) -> str:
    """The reason to run a unit again; empty if there is none."""
    if recorded is None:
        return "never recorded"
    return ", ".join(file for file in sorted({*recorded, *current})
                     if recorded.get(file) != current.get(file))


def choose(current: dict[str, dict[str, str]], recorded: dict[str, dict[str, str]],
           mutated: dict[str, set[pathlib.Path]]) -> dict[str, str]:
    """The units to run, each with the reason.

    A mutant of a file that two units cover may be killed by one of them only, so units that share a
    mutated file run together.
    """
    chosen = {unit: f"changed: {why}" if unit in recorded else why
              for unit, hashes in current.items()
              if (why := why_changed(recorded.get(unit), hashes))}
    ahead = list(chosen)
    while ahead:
        unit = ahead.pop()
        for other in current:
            if other not in chosen and mutated[unit] & mutated[other]:
                chosen[other] = f"shares a mutated file with {unit}"
                ahead.append(other)
    return chosen


def read_record(file: pathlib.Path) -> dict[str, dict[str, str]]:
    return json.loads(file.read_text()) if file.is_file() else {}


def write_record(file: pathlib.Path, recorded: dict[str, dict[str, str]],
                 current: dict[str, dict[str, str]], ran: set[str]) -> None:
    """Replaces the units that ran, keeps the others, drops those that no longer exist."""
    new = {unit: current[unit] if unit in ran else recorded[unit]
           for unit in sorted(current) if unit in ran or unit in recorded}
    file.write_text(json.dumps(new, indent=1) + "\n")


def jobs_of(models: list[pathlib.Path]) -> tuple[dict[Mutant, list[pathlib.Path]], int]:
    """The mutants with the models that may kill them, and how many models cannot be used."""
    jobs, bad = {}, 0
    for model in models:
        files = mutated_by(model)
        missing = [f for f in files if not (ROOT / f).is_file()]
        if not files or missing:
            said = f"no such file: {missing[0]}" if missing else "no line `// mutates: <file>`"
            print(f"error      {model.relative_to(ROOT)}: {said}")
            bad += 1
            continue
        for file in files:
            for mutant in mutants_of(file, (ROOT / file).read_text()):
                jobs.setdefault(mutant, []).append(model)
    return jobs, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*", help="only these models, e.g. parker")
    parser.add_argument("--all", action="store_true", help="every unit, changed or not")
    parser.add_argument("--record", action="store_true",
                        help="write the hashes of the units that ran, if nothing failed")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--limit", type=float, default=300, help="seconds a model may run (300)")
    options = parser.parse_args()
    if options.all and options.units:
        parser.error("--all or units, not both")

    if not (RELACY / "relacy" / "atomic.hpp").exists():
        print("mutate_orders: relacy-dev is missing, nothing is checked")
        return 1
    all_models = sorted((ROOT / "tests/model").glob("*_model.cpp"))
    if absent := set(options.units) - {unit_of(model) for model in all_models}:
        print(f"mutate_orders: no such model: {' '.join(sorted(absent))}")
        return 1
    # Before the run: edits during the run must not be recorded.
    current = {unit_of(model): hashes_of(model, ROOT) for model in all_models}
    mutated = {unit_of(model): set(mutated_by(model)) for model in all_models}
    recorded = read_record(RECORD)
    if options.all:
        chosen = dict.fromkeys(current, "--all")
    elif options.units:
        chosen = dict.fromkeys(options.units, "named")
    else:
        chosen = choose(current, recorded, mutated)
        for unit in current:
            print(f"run        {unit}: {chosen[unit]}" if unit in chosen else
                  f"skip       {unit}: as recorded")
    jobs, bad = jobs_of([model for model in all_models if unit_of(model) in chosen])
    if not options.units:
        for file in unmodelled(set().union(*mutated.values())):
            print(f"note: no model covers {file}")

    count = dict.fromkeys(("killed", "survived", "excused", "timed out", "error"), 0)
    excuses: dict[tuple, bool] = {}  # an excused line -> a mutant of it survived
    began = time.monotonic()
    if bad:
        return 1
    if not chosen:
        print("0 mutants: every unit is as recorded")
        if options.record:
            write_record(RECORD, recorded, current, set())
        return 0
    with tempfile.TemporaryDirectory(prefix="verge-mutants-") as name, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runner = Runner(pathlib.Path(name), options.limit, jobs)
        used = sorted({model for models in jobs.values() for model in models})
        for model, said in zip(used, pool.map(runner.compile, used)):
            if said:
                print(f"error      {model.relative_to(ROOT)} does not compile\n{said[-2000:]}")
                bad += 1
        if bad:
            return 1
        unchanged = list(pool.map(lambda model: runner.run(model, None), used))
        for model, (result, output) in zip(used, unchanged):
            if result != "passed":
                print(f"error      {model.relative_to(ROOT)} unchanged: {result}\n{output[-2000:]}")
                bad += 1
        if bad:
            return 1
        results = pool.map(lambda job: runner.run_all(*job), jobs.items())
        for mutant, (result, output) in zip(jobs, results):
            said = verdict(result, mutant)
            count[said] += 1
            print(f"{said:10} {mutant}", flush=True)
            if said == "error":
                print(output[-2000:])
            if mutant.excused:
                place = (mutant.path, mutant.line)
                excuses[place] = excuses.get(place, False) or said != "killed"

    for (path, line), needed in excuses.items():
        if not needed:
            print(f"note: {path}:{line}: `not mutated` is no longer true, every mutant was killed")
    print(f"{len(jobs)} mutants: " + ", ".join(f"{n} {what}" for what, n in count.items()) +
          f"; {time.monotonic() - began:.0f} s")
    if count["survived"] or count["timed out"] or count["error"]:
        return 1
    if options.record:
        write_record(RECORD, recorded, current, set(chosen))
        print(f"recorded {len(chosen)} units in {RECORD.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
