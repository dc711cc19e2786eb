#!/usr/bin/env python3
"""Trains natively and under vshare, and says for each run how fast it was and whether every loss had the same bits.

    scripts/bench/suite.py --out results                          everything: about 8 minutes on an H200
    scripts/bench/suite.py --out results --only 'gpt/tight*'      some of it, by name, with the native runs that it is compared with
    scripts/bench/suite.py --out results --list                   the names, and what they are expected to take
    scripts/bench/suite.py --report results                       the results as Markdown

A run's name is model/kind/allocator: kind is native, room (vshare, memory suffices) or tight (vshare, at --fraction of what the native
run held), then for some the policy, the seed or the batch. allocator is caching (PyTorch's own), async (cudaMallocAsync) or uncached.
Results are written after every run to results/suite.json; what is there already is not run again.

Managed memory beyond what the card has free can hang the whole card, so: one process under vshare at a time, VSHARE_LIMIT always set and
never above 15 GiB, and no run of a program that held more than that allows natively.
"""

import argparse
import dataclasses
import fcntl
import fnmatch
import glob
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "release"
MIB, GIB = 2**20, 2**30
MOST_LIMIT = 15 * GIB
MOST_MANAGED = 16 * GIB
BATCH = {"gpt": 16, "resnet50": 128}
OTHER_BATCH = {"gpt": 24, "resnet50": 64}
ALLOCATORS = {
    "caching": {},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "uncached": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
}
OURS = ("VSHARE_", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "LD_PRELOAD")


@dataclasses.dataclass(frozen=True)
class Run:
    model: str
    kind: str  # native, room, tight
    allocator: str
    steps: int
    policy: str = "auto"
    seed: int = 0
    batch: int = 0
    seconds: float = 15  # expected, start-up included

    @property
    def name(self):
        parts = [self.model, self.kind, self.allocator]
        if self.policy != "auto":
            parts.append(self.policy)
        if self.seed:
            parts.append(f"seed{self.seed}")
        if self.batch != BATCH[self.model]:
            parts.append(f"batch{self.batch}")
        return "/".join(parts)

    @property
    def native(self):
        """The name of the native run that this one is compared with."""
        return Run(self.model, "native", "caching", 0, seed=self.seed, batch=self.batch).name


def all_runs():
    runs = []
    for model, batch in BATCH.items():

        def add(kind, allocator, steps, seconds, model=model, batch=batch, **more):
            runs.append(Run(model, kind, allocator, steps, seconds=seconds, **{"batch": batch, **more}))

        add("native", "caching", 50, 13)
        add("native", "async", 30, 12)
        add("native", "uncached", 10, 13)
        add("room", "caching", 50, 14)
        add("room", "async", 50, 14)
        add("room", "uncached", 50, 14)
        add("tight", "caching", 20, 20)
        add("tight", "async", 50, 27)
        add("tight", "uncached", 20, 17)
        add("tight", "async", 20, 20, policy="lru")
        add("tight", "caching", 12, 24, policy="demand")
        add("tight", "async", 12, 25, policy="demand")
        add("native", "caching", 20, 11, seed=1)
        add("tight", "async", 20, 17, seed=1)
        add("native", "caching", 20, 11, batch=OTHER_BATCH[model])
        add("tight", "async", 20, 17, batch=OTHER_BATCH[model])
        add("room", "uncached", 20, 14, batch=OTHER_BATCH[model])
    return runs


def chosen_runs(patterns):
    """The runs whose names match, and the native ones that they need, in order."""
    runs = all_runs()
    if not patterns:
        return runs
    patterns = [p.strip() for p in patterns.split(",") if p.strip()]
    wanted = {r.name for r in runs if any(fnmatch.fnmatch(r.name, p) or p in r.name for p in patterns)}
    needed = wanted | {r.native for r in runs if r.name in wanted}
    return [r for r in runs if r.name in needed]


def size(text):
    for suffix, unit in (("GiB", GIB), ("MiB", MIB)):
        if text.endswith(suffix):
            return int(float(text[: -len(suffix)]) * unit)
    return int(text)


# ---- what is kept


class Results:
    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "suite.json"
        self.runs, self.about = {}, {}
        if self.path.exists():
            stored = json.loads(self.path.read_text())
            self.runs, self.about = stored["runs"], stored["about"]

    def keep(self, name, result):
        self.runs[name] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"about": self.about, "runs": self.runs}, indent=1))
        new.replace(self.path)

    def done(self, name):
        return self.runs.get(name, {}).get("steps", 0) > 0 and not self.runs[name].get("error")


def first_difference(result, reference):
    """How many losses were compared, and the index of the first that differs, or None."""
    ours, theirs = result.get("losses", []), reference.get("losses", [])
    common = min(len(ours), len(theirs))
    return common, next((i for i in range(common) if ours[i] != theirs[i]), None)


# ---- running under vshare, within bounds


class Refused(Exception):
    pass


def other_process_under(library):
    """Some process that has the library loaded."""
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps) as file:
                if os.path.basename(library) in file.read():
                    return int(maps.split("/")[2])
        except OSError:
            pass
    return None


def free_on_card():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True)
        return int(asked.stdout.split()[0]) * MIB
    except (OSError, ValueError, IndexError):
        return None


def bounds(run, reference, args):
    """Budget and limit in bytes, and the native figure that the budget is a part of; refuses what could grow too large."""
    reserved, allocated = reference.get("max_memory_reserved", 0), reference.get("max_memory_allocated", 0)
    if not reserved or not allocated:
        raise Refused("the native run left no peak of memory")
    need = int(1.25 * reserved) + GIB // 2
    if need > MOST_LIMIT:
        raise Refused(f"held {reserved / GIB:.1f} GiB natively: might need more than {MOST_LIMIT // GIB} GiB of managed memory")
    limit = min(MOST_LIMIT, args.limit or MOST_LIMIT)
    free = free_on_card()
    if free is not None and free < MOST_MANAGED:
        raise Refused(f"only {free / GIB:.1f} GiB free on the card")
    other = other_process_under(args.library)
    if other:
        raise Refused(f"process {other} runs under vshare already")
    if run.kind == "room":
        return limit, limit, 0
    base = args.half_of if args.half_of != "auto" else ("reserved" if run.allocator == "caching" else "allocated")
    whole = reserved if base == "reserved" else allocated
    return int(args.fraction * whole) // (2 * MIB) * (2 * MIB), limit, whole


def counters_of(pid, args):
    """What the process published, by `vshare stats`; then its segment goes."""
    segments = glob.glob(f"/dev/shm/vshare-{os.getuid()}-{pid}-*")
    answer = {}
    if os.access(args.cli, os.X_OK):
        asked = subprocess.run([args.cli, "stats", str(pid), "--json"], capture_output=True, text=True)
        try:
            answer = json.loads(asked.stdout)
        except ValueError:
            answer = {"unreadable": (asked.stdout + asked.stderr)[-300:]}
    elif segments:
        answer = {"unreadable": f"no {args.cli}"}
    for path in segments:
        os.unlink(path)
    return answer


def flat_counters(answer):
    """Name to number, whether the counters come as an object, in a list of rows, or some levels down."""
    flat = {}

    def walk(value, name):
        if isinstance(value, dict):
            if isinstance(value.get("name"), str) and isinstance(value.get("value"), (int, float)):
                flat[value["name"]] = value["value"]
                return
            for key, inner in value.items():
                walk(inner, key)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, name)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and name:
            flat[name] = value

    walk(answer.get("counters", answer) if isinstance(answer, dict) else answer, None)
    return flat


def environment(run, budget, limit, args):
    env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    env.update(ALLOCATORS[run.allocator], PYTHONUNBUFFERED="1")
    if run.kind != "native":
        env.update(LD_PRELOAD=args.library, VSHARE_BUDGET=str(budget), VSHARE_LIMIT=str(limit), VSHARE_POLICY=run.policy)
        env.update(pair.split("=", 1) for pair in args.env)
        if size(env["VSHARE_LIMIT"]) > MOST_LIMIT:
            raise Refused("VSHARE_LIMIT would be above 15 GiB")
    return env


def execute(run, reference, args):
    result = {"run": dataclasses.asdict(run)}
    budget = limit = whole = 0
    if run.kind != "native":
        budget, limit, whole = bounds(run, reference, args)
        result.update(budget=budget, limit=limit, whole=whole)
    out = pathlib.Path(args.out) / (run.name.replace("/", "-") + ".json")
    out.unlink(missing_ok=True)
    steps = args.steps or run.steps
    command = [sys.executable, args.train, run.model, "--steps", str(steps), "--batch", str(run.batch), "--seed", str(run.seed), "--out", str(out)]
    command += ["--limit-seconds", str(max(1, args.timeout - 30))] + args.train_argument
    with open(out.with_suffix(".log"), "w") as log:
        started = time.monotonic()
        child = subprocess.Popen(command, env=environment(run, budget, limit, args), stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = child.wait(args.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = f"ended after {args.timeout} s"
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
    result["seconds"] = time.monotonic() - started
    if out.exists():
        result.update(json.loads(out.read_text()))
        out.unlink()
    tail = out.with_suffix(".log").read_text(errors="replace")[-2000:]
    if status != 0 or "error" in result:
        result["error"] = result.get("error") or f"status {status}"
        result["log"] = tail
    elif run.kind != "native":
        result["log"] = "\n".join(line for line in tail.splitlines() if "vshare" in line)[-1000:]
    if run.kind != "native":
        result["counters"] = flat_counters(counters_of(child.pid, args))
        if result["counters"].get("arena_bytes", 0) > MOST_MANAGED:
            result["error"] = f"took {result['counters']['arena_bytes'] / GIB:.1f} GiB of managed memory: more than is safe"
    return result


# ---- words


def gib(n):
    return f"{n / GIB:.2f}" if n else "-"


def verdict(result, reference):
    if result.get("error"):
        return "FAILED"
    common, differs = first_difference(result, reference)
    if differs is None:
        return f"identical ({common})" if common else "nothing compared"
    return f"DIFFER from step {differs} (of {common})"


def least_ms(result, reference, bandwidth):
    """No policy is faster: what does not fit goes out and comes back once a step, and the two do not overlap (exact tensors only)."""
    if result["run"]["kind"] != "tight" or result["run"]["allocator"] == "caching":
        return None
    short = max(0, reference["max_memory_allocated"] - result["budget"])
    return max(reference["median_ms"], 2e3 * short / bandwidth)


def line(name, result, reference):
    if "median_ms" not in result:
        return f"{name:38} {verdict(result, reference)}: {result.get('error', 'too few steps to time')}"
    ratio = result["median_ms"] / reference["median_ms"] if reference.get("median_ms") else 0
    text = f"{name:38} {result['median_ms']:8.2f} ms/step (mean {result['mean_ms']:.2f} min {result['min_ms']:.2f}) {ratio:5.2f} x native, losses "
    text += verdict(result, reference)
    if result.get("budget"):
        text += f", budget {gib(result['budget'])} of {gib(result['whole']) if result['whole'] else 'enough'} GiB"
    else:
        text += f", allocated {gib(result.get('max_memory_allocated'))} reserved {gib(result.get('max_memory_reserved'))} GiB"
    return text + f", {result['seconds']:.0f} s"


def amount(name, value):
    if name.endswith("_bytes"):
        return f"{value / MIB:.0f} MiB"
    if name.endswith("_nanoseconds"):
        return f"{value / 1e6:.1f} ms"
    return str(value)


def row(name, result, reference, bandwidth):
    cells = [name, str(result.get("steps", 0))]
    if result.get("median_ms") and reference.get("median_ms"):
        least = least_ms(result, reference, bandwidth)
        cells += [f"{result['median_ms']:.2f}", f"{result['median_ms'] / reference['median_ms']:.3f}"]
        cells += [f"{least / result['median_ms']:.2f}" if least else "-"]
    else:
        cells += ["-", "-", "-"]
    cells += ["-" if reference is result else verdict(result, reference)]
    cells += [gib(result.get("budget")), gib(result.get("max_memory_allocated")), gib(result.get("max_memory_reserved"))]
    return "| " + " | ".join(cells) + " |"


def report(results, bandwidth):
    about = results.about
    print(f"{about.get('device', '?')}, PyTorch {about.get('torch', '?')}, {about.get('when', '?')}. Times are medians over the steps after the first five.\n")
    print("| run | steps | ms/step | x native | least / ms | losses against native (steps) | budget GiB | allocated GiB | reserved GiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, result in results.runs.items():
        print(row(name, result, results.runs.get(Run(**result["run"]).native, {}), bandwidth))
    print(
        f"\nleast / ms, for exact tensors: max(native, 2 (native peak - budget) / {bandwidth / 1e9:.0f} GB/s) over the measured step; "
        "1 is the best that any policy can do.\n"
    )
    print("| run under vshare | counters at its end that are not 0, over all its steps |\n|---|---|")
    for name, result in results.runs.items():
        if result.get("counters"):
            print(f"| {name} | {', '.join(f'{c} {amount(c, v)}' for c, v in result['counters'].items() if v)} |")
    for name, result in results.runs.items():
        if result.get("error"):
            print(f"\n{name}: {result['error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n", 2)[2], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="bench-results", help="folder for suite.json and the programs' logs (default bench-results)")
    parser.add_argument("--only", help="patterns of names, separated by commas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--report", metavar="FOLDER", help="print the results as Markdown and end")
    parser.add_argument("--again", action="store_true", help="also run what has a result")
    parser.add_argument("--fraction", type=float, default=0.5, help="budget of the tight runs, of the native peak (default 0.5)")
    parser.add_argument("--half-of", choices=("auto", "reserved", "allocated"), default="auto", help="which peak; auto: reserved for caching, else allocated")
    parser.add_argument("--limit", type=size, default=0, help="VSHARE_LIMIT (default and most: 15GiB)")
    parser.add_argument("--steps", type=int, default=0, help="steps of every run, instead of its own")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one run (default 120)")
    parser.add_argument("--deadline", type=float, default=560, help="start nothing that would probably end after so many seconds (default 560)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="more for the environment of the vshare runs")
    parser.add_argument("--train-argument", action="append", default=[], metavar="ARGUMENT", help="more for train.py, in every run")
    parser.add_argument("--bandwidth", type=float, default=50e9, help="bytes per second each way, for the bound in the report (default 50e9)")
    parser.add_argument("--library", default=str(TARGET / "libvshare.so"))
    parser.add_argument("--cli", default=str(TARGET / "vshare"))
    parser.add_argument("--train", default=str(HERE / "train.py"))
    args = parser.parse_args()
    if args.report:
        return report(Results(args.report), args.bandwidth)

    runs = chosen_runs(args.only)
    if args.list:
        for run in runs:
            print(f"{run.name:38} {run.steps:3} steps, about {run.seconds:.0f} s")
        return print(f"{len(runs)} runs, about {sum(r.seconds for r in runs):.0f} s")
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"no PyTorch for {sys.executable}: install torch, or run this with a Python that has it")
    args.library = os.path.realpath(args.library)
    if any(r.kind != "native" for r in runs) and not os.path.exists(args.library):
        sys.exit(f"no {args.library}: build it with cargo build --release")
    lock = open("/tmp/vshare-bench.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("another benchmark is running")

    results = Results(args.out)
    results.path.parent.mkdir(parents=True, exist_ok=True)
    begun, failed = time.monotonic(), 0
    for run in runs:
        if results.done(run.name) and not args.again:
            print(f"{run.name:38} kept from before", flush=True)
            continue
        if time.monotonic() - begun + run.seconds > args.deadline:
            print(f"{run.name:38} left out: no time before the deadline", flush=True)
            continue
        reference = results.runs.get(run.native, {})
        try:
            result = execute(run, reference, args)
        except Refused as why:
            result = {"run": dataclasses.asdict(run), "error": f"refused: {why}"}
        if "device" in result:
            results.about.update(device=result["device"], torch=result["torch"], when=time.strftime("%Y-%m-%d %H:%M"))
        results.keep(run.name, result)
        differs = first_difference(result, results.runs.get(run.native, {}))[1] is not None
        failed += bool(result.get("error")) or differs
        print(line(run.name, result, results.runs.get(run.native, {})), flush=True)
        if result.get("log"):
            print("    " + "\n    ".join(result["log"].splitlines()[-8:]), flush=True)
    print(f"{failed} of {len(runs)} runs failed or differ; {results.path}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
