"""Run the official library's own Python tests against Frazil, and count.

    python -m tests.conformance.run [--files test_store.py ...] [-k EXPRESSION] [--resume]

The source distribution is fetched from the package index that pip is configured with and unpacked
below `.conformance`; nothing of it is part of this project. `import icechunk` gives Frazil through
`frazil.install_as_icechunk`. An S3 server (moto) runs on port 4200 of the loopback interface for the
time of the run. Every file is run in a process of its own: one that hangs or dies takes nothing else
along.

The tests that don't pass must be listed in docs/compatibility.md. Exits with 1 if one is not, if one
that is listed passes, or if fewer pass than `EXPECTED_TO_PASS`.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

VERSION = "2.3.0"
EXPECTED_TO_PASS = 727

ROOT = Path(__file__).resolve().parents[2]
SHIM = Path(__file__).resolve().parent / "shim"
WORK = Path(os.environ.get("CONFORMANCE_DIR", ROOT / ".conformance"))
TREE = WORK / "suite"
RESULTS = WORK / "results"
DOCUMENT = ROOT / "docs" / "compatibility.md"

# Other files: they need a second official library, a free-threaded Python, or redirects of real
# domains.
LEFT_OUT = {
    "test_stateful_compat.py",
    "test_free_threading.py",
    "test_redirect_storage.py",
    "test_dask_array.py",
}
# Files that take minutes: random programs, and clusters of processes.
SLOW = {
    "test_concurrency.py",
    "test_dask.py",
    "test_distributed_append.py",
    "test_distributed_writers.py",
    "test_properties.py",
    "test_stateful.py",
    "test_stateful_parallel_sessions.py",
    "test_stateful_repo_ops.py",
}
S3_PORT = 4200  # in the tests, and saved in the repositories that come with them
SECONDS_PER_TEST = 900
SECONDS_PER_FILE = 2400

SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers =
    gpu: declared by the official suite
    hypothesis: declared by the official suite
"""


def main() -> int:
    options = parse_options()
    unpack_suite()
    files = choose_files(options.files)
    if not options.resume:
        shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True, exist_ok=True)

    with run_s3_server(), ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: run_file(name, options.expression), files))

    print_table(dict(sorted(zip(files, results, strict=True))))
    outcomes = {test: outcome for result in results for test, outcome in result.items()}
    return judge(outcomes, whole=not options.files and not options.expression)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", nargs="+", default=[], help="parts of names of files to run")
    parser.add_argument("-k", dest="expression", default="", help="tests to run, as for pytest")
    parser.add_argument("--resume", action="store_true", help="keep results of files that ended")
    parser.add_argument("--jobs", type=int, default=2, help="files that run at once")
    return parser.parse_args()


def unpack_suite() -> None:
    """Bring the official tests and their helpers to `TREE`, unless they are there."""
    if TREE.exists():
        return
    WORK.mkdir(parents=True, exist_ok=True)
    archive = WORK / f"icechunk-{VERSION}.tar.gz"
    if not archive.exists():
        fetch_source_distribution(archive)
    unpacked = WORK / "unpacked"
    with tarfile.open(archive) as sources:
        sources.extractall(unpacked, filter="data")
    source = unpacked / f"icechunk-{VERSION}"
    partial = WORK / "suite.partial"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source / "icechunk-python/tests", partial / "tests")
    shutil.copytree(source / "python/icechunk/testing", partial / "helpers")
    (partial / "helpers/__init__.py").unlink()
    (partial / "pytest.ini").write_text(SETTINGS)
    partial.rename(TREE)


def fetch_source_distribution(archive: Path) -> None:
    """Download the file itself: `pip download` would build it, which takes a Rust compiler."""
    index = ask_pip("global.index-url") or "https://pypi.org/simple"
    page = f"{index.rstrip('/')}/icechunk/"
    with urllib.request.urlopen(page) as answer:
        links = answer.read().decode()
    link = re.search(rf'href="([^"]*{re.escape(archive.name)}[^"]*)"', links)
    if link is None:
        sys.exit(f"The package index has no {archive.name}.")
    with urllib.request.urlopen(urllib.parse.urljoin(page, link[1].split("#")[0])) as answer:
        partial = archive.with_suffix(".partial")
        partial.write_bytes(answer.read())
    partial.rename(archive)


def ask_pip(setting: str) -> str:
    """Return a setting of pip; the environment counts before its files."""
    if "PIP_INDEX_URL" in os.environ:
        return os.environ["PIP_INDEX_URL"]
    command = [sys.executable, "-m", "pip", "config", "get", setting]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def choose_files(parts: list[str]) -> list[str]:
    """Return the files to run, quick ones first."""
    names = [str(path.relative_to(TREE)) for path in TREE.glob("tests/**/test_*.py")]
    names.sort(key=lambda name: (Path(name).name in SLOW, name))
    names = [name for name in names if Path(name).name not in LEFT_OUT]
    return [name for name in names if not parts or any(part in name for part in parts)]


@contextmanager
def run_s3_server() -> Iterator[None]:
    """Run moto with the bucket of the tests on the port that they expect."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", S3_PORT)) == 0:
            sys.exit(f"Port {S3_PORT}, which the official tests are written for, is in use.")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(S3_PORT)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        create_bucket(f"http://127.0.0.1:{S3_PORT}/testbucket")
        yield
    finally:
        server.terminate()
        server.wait()


def create_bucket(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
            return
        except OSError:
            time.sleep(0.2)
    sys.exit("The S3 server did not start.")


def run_file(name: str, expression: str) -> dict[str, str]:
    """Run the tests of a file; return the outcome of each."""
    stem = RESULTS / name.removeprefix("tests/").replace("/", "-").removesuffix(".py")
    done, lines = stem.with_suffix(".json"), stem.with_suffix(".lines")
    if done.exists():
        return dict(json.loads(done.read_text()))
    lines.write_text("")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conformance_outcomes", "-rfE"]
    command += [f"--timeout={SECONDS_PER_TEST}", "-p", "no:cacheprovider", "--tb=short", name]
    command += ["-k", expression] if expression else []
    with stem.with_suffix(".log").open("w") as log:
        try:
            subprocess.run(
                command,
                cwd=TREE,
                env=environment(lines),
                stdout=log,
                stderr=log,
                timeout=SECONDS_PER_FILE,
            )
        except subprocess.TimeoutExpired:
            lines.write_text(lines.read_text() + json.dumps([f"{name}::(no end)", "failed"]) + "\n")
    outcomes = dict(json.loads(line) for line in lines.read_text().splitlines())
    outcomes = {test.removeprefix("tests/"): outcome for test, outcome in outcomes.items()}
    done.write_text(json.dumps(outcomes))
    return outcomes


def environment(lines: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(SHIM),
        "CONFORMANCE_HELPERS": str(TREE / "helpers"),
        "CONFORMANCE_OUTCOMES": str(lines),
        "ICECHUNK_LOG": "error",
        "AWS_ACCESS_KEY_ID": "test123",
        "AWS_SECRET_ACCESS_KEY": "test123",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def print_table(results: dict[str, dict[str, str]]) -> None:
    print(f"{'file':<46}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for name, outcomes in results.items():
        counts = Counter(outcomes.values())
        short = name.removeprefix("tests/")
        print(f"{short:<46}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}")


def judge(outcomes: dict[str, str], *, whole: bool) -> int:
    """Print the tests with an unexpected outcome and the last line; return the exit code."""
    listed = read_listed_tests()
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
    passed = [test for test, outcome in outcomes.items() if outcome == "passed"]
    unlisted = [test for test in failed if not listed & {test, without_parameters(test)}]
    outdated = [test for test in passed if listed & {test, without_parameters(test)}]
    for test in unlisted:
        print(f"failed, and not listed in {DOCUMENT.name}: {test}")
    for test in outdated:
        print(f"passed, but listed in {DOCUMENT.name}: {test}")
    print(
        f"conformance: {len(passed)} passed, {len(failed)} failed ({len(unlisted)} of them not "
        f"listed), {len(outcomes) - len(passed) - len(failed)} skipped of {len(outcomes)}"
    )
    too_few = whole and len(passed) < EXPECTED_TO_PASS
    return 1 if unlisted or outdated or too_few else 0


def read_listed_tests() -> set[str]:
    """Return the tests in the first column of the table in docs/compatibility.md."""
    return set(re.findall(r"^\| `(test_[^`]+\.py::[^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE))


def without_parameters(test: str) -> str:
    """Return the name that stands for a test with all its parameters."""
    return test.partition("[")[0]


if __name__ == "__main__":
    sys.exit(main())
