"""Answer requests from standard input until it ends.

Answers go to what standard output was at the start; whatever else in this process prints, the official
library's log among it, goes to standard error.
"""

import os
import sys
from typing import BinaryIO

import icechunk
import zarr

from tests.interop.official.calls import answer


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """One answer for each request, in order."""
    for line in requests:
        answers.write(answer(line))
        answers.flush()


if __name__ == "__main__":
    private = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    icechunk.set_logs_filter("error")
    zarr.config.set({"array.rectilinear_chunks": True})
    serve(sys.stdin.buffer, private)
