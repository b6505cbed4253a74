"""Encoding, decoding and searching manifests, beside the official library in the same run.

    python -m benchmarks.format [--rounds 5] [--largest 10000000]

- *commit* is the official library's `commit` of references that were set before; ours is
  `encode_manifest` of the same references. The official one also writes three small files.
- *look-up* is reading a manifest file and finding one chunk in it, in a fresh process; of both, in
  each one's own file, and where the official library can't be made to write the kind, in ours.
- Peak memory is by how much the work raised the process's memory.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

KINDS = {
    "virtual": "virtual, 10 k files",
    "distinct": "virtual, a file each",
    "native": "native",
    "inline": "inline",
    "mixed": "mixed",
}
OFFICIAL_CAN_WRITE = ("virtual", "distinct")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)

OURS, OFFICIAL = "benchmarks.support.format_ours", "benchmarks.support.format_official"


@dataclass(frozen=True)
class Case:
    """One kind of references in one number, measured over rounds."""

    kind: str
    references: int
    ours: dict[str, Figures]
    official: dict[str, Figures]


def measure(kind: str, references: int, rounds: int, official_python: str) -> Case:
    """Alternate between the two libraries, each workload in a fresh process."""
    ours: dict[str, list[Figures]] = {}
    official: dict[str, list[Figures]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            mine, theirs = f"{folder}/ours", f"{folder}/official"
            common = {"references": references}
            _run(ours, sys.executable, OURS, "encode", kind=kind, folder=mine, **common)
            if kind in OFFICIAL_CAN_WRITE:
                where = {"kind": kind, "folder": theirs}
                _run(official, official_python, OFFICIAL, "commit", **where, **common)
                _run(ours, sys.executable, OURS, "decode_foreign", folder=theirs)
            else:
                theirs = mine
            _run(ours, sys.executable, OURS, "decode", folder=mine)
            _run(official, official_python, OFFICIAL, "look_up", folder=theirs, **common)
            _run(ours, sys.executable, OURS, "look_up", folder=mine, **common)
    return Case(
        kind,
        references,
        {name: medians(figures) for name, figures in ours.items()},
        {name: medians(figures) for name, figures in official.items()},
    )


def _run(
    figures: dict[str, list[Figures]], python: str, module: str, workload: str, **arguments: object
) -> None:
    found = run_child(python, module, workload=workload, **arguments)
    figures.setdefault(workload, []).append(found)


def print_cases(cases: list[Case]) -> None:
    """All cases as tables: times, then memory and sizes."""
    print_table(
        "Manifests: seconds (ratio: how many times faster than the official library)",
        ["references", "kind", "encode", "official commit", "ratio", "decode all",
         "decode official's file", "look-up", "official look-up", "ratio"],
        [_times(case) for case in cases],
    )  # fmt: skip
    print_table(
        "Manifests: sizes",
        ["references", "kind", "file MB", "official MB", "ratio", "encode peak MB",
         "official peak MB", "decode peak MB", "look-up peak MB", "official peak MB",
         "columns, bytes a reference"],
        [_sizes(case) for case in cases],
    )  # fmt: skip


def _times(case: Case) -> list[str]:
    encode, decode, look_up = (
        case.ours[name]["seconds"] for name in ("encode", "decode", "look_up")
    )
    commit = case.official.get("commit", {}).get("seconds")
    foreign = case.ours.get("decode_foreign", {}).get("seconds")
    theirs = case.official["look_up"]["seconds"]
    return [
        f"{case.references:,}", KINDS[case.kind], f"{encode:.3f}", _show(commit, "{:.3f}"),
        _show(commit and commit / encode, "{:.1f} ×"), f"{decode:.3f}", _show(foreign, "{:.3f}"),
        f"{look_up:.3f}", f"{theirs:.3f}", f"{theirs / look_up:.1f} ×",
    ]  # fmt: skip


def _sizes(case: Case) -> list[str]:
    size = case.ours["encode"]["file_bytes"]
    theirs = case.official.get("commit", {}).get("file_bytes")
    peaks = {name: figures["peak_bytes"] / 1e6 for name, figures in case.ours.items()}
    official = {name: figures["peak_bytes"] / 1e6 for name, figures in case.official.items()}
    columns = case.ours["decode"]["table_bytes"] / case.references
    return [
        f"{case.references:,}", KINDS[case.kind], f"{size / 1e6:.2f}",
        _show(theirs and theirs / 1e6, "{:.2f}"), _show(theirs and size / theirs, "{:.2f}"),
        f"{peaks['encode']:.0f}", _show(official.get("commit"), "{:.0f}"),
        f"{peaks['decode']:.0f}", f"{peaks['look_up']:.0f}", f"{official['look_up']:.0f}",
        f"{columns:.1f}",
    ]  # fmt: skip


def _show(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    official_python = find_official_python()
    cases = []
    for references in (size for size in SIZES if size <= options.largest):
        for kind in options.kinds:
            # One round of the largest takes minutes.
            rounds = options.rounds if references < SIZES[-1] else 1
            cases.append(measure(kind, references, rounds, official_python))
            print(f"measured {references:,} {KINDS[kind]}", file=sys.stderr)
    print_cases(cases)


if __name__ == "__main__":
    main()
