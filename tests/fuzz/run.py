"""Decode many damaged files: `python tests/fuzz/run.py --count 200000`.

Fails if any of them ends otherwise than in a value or a FormatError that names the file, takes more
than 5 seconds of the processor, or far more calls or memory than its size. Such files are kept in
`tests/fuzz/failures`; `--seed` and `--first` make a case again.
"""

import argparse
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import psutil

from tests.fuzz.cases import Failure, Tally, make_cases, try_cases
from tests.fuzz.corpus import Corpus, read_corpus
from tests.fuzz.target import MisbehaviourError

FAILURES = Path(__file__).parent / "failures"
_BATCH = 250
_SHOWN_BYTES = 512
_HOPELESS_SECONDS = 5
_MEMORY = 2 * 2**30

_corpus: Corpus = {}


def main() -> int:
    """Run, print what came of it, and return the exit status."""
    options = _parse_arguments()
    started = time.monotonic()
    batches = _batches(options.first, options.count)
    tally = Tally()
    with multiprocessing.Pool(options.workers, _prepare) as pool:
        jobs = ((options.seed, numbers) for numbers in batches)
        for part in pool.imap_unordered(_try_batch, jobs):
            tally.add(part)
            for failure in part.failures:
                _report(failure, options.seed)
            if time.monotonic() - started > options.seconds:
                pool.terminate()
                break
    _print_summary(tally, time.monotonic() - started)
    return 1 if tally.failures else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=200_000, help="how many damaged files")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other files")
    parser.add_argument("--first", type=int, default=0, help="the number of the first file")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    return parser.parse_args()


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, _BATCH):
        yield range(start, min(start + _BATCH, first + count))


def _prepare() -> None:
    _corpus.update(read_corpus())
    held = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (held + _MEMORY, held + _MEMORY))
    signal.signal(signal.SIGPROF, _give_up)


def _give_up(_: int, __: FrameType | None) -> None:
    raise MisbehaviourError(f"no end after {_HOPELESS_SECONDS} seconds")


def _try_batch(job: tuple[int, range]) -> Tally:
    seed, numbers = job
    tally = Tally()
    for case in make_cases(_corpus, seed, numbers):
        signal.setitimer(signal.ITIMER_PROF, _HOPELESS_SECONDS)
        tally.add(try_cases([case]))
    signal.setitimer(signal.ITIMER_PROF, 0)
    return tally


def _report(failure: Failure, seed: int) -> None:
    case = failure.case
    path = FAILURES / f"{case.kind.replace(' ', '-')}-{seed}-{case.number}"
    path.write_bytes(case.data)
    shown = case.data[:_SHOWN_BYTES].hex()
    rest = "…" if len(case.data) > _SHOWN_BYTES else ""
    print(f"FAILED --seed {seed} --first {case.number} --count 1: {case.kind} of {case.origin}")
    print(f"  {failure.why}\n  {path}: {shown}{rest}", flush=True)


def _print_summary(tally: Tally, seconds: float) -> None:
    print(f"{'kind':<18}{'accepted':>10}{'refused':>10}")
    for kind in sorted(tally.accepted | tally.refused):
        print(f"{kind:<18}{tally.accepted[kind]:>10}{tally.refused[kind]:>10}")
    rate = len(tally) / seconds
    print(
        f"{len(tally)} files in {seconds:.0f} s, {rate:.0f} a second, {len(tally.failures)} failed"
    )


if __name__ == "__main__":
    sys.exit(main())
