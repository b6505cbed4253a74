"""The table of calls. A function whose request names a repository gets it opened.

To add a call: write a function of plain values that returns plain values, and enter it here.
"""

import platform
from collections.abc import Callable
from typing import Any

import icechunk

from tests.interop.machine import serving
from tests.interop.official import (
    configuring,
    maintaining,
    operating,
    reading,
    rebasing,
    writing,
)
from tests.interop.official.opening import open_repository
from tests.interop.official.protocol import decode_line, encode_line
from tests.interop.rich import serving as rich


def read_versions() -> dict[str, str]:
    """Who answers."""
    return {"icechunk": icechunk.__version__, "python": platform.python_version()}


CALLS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        read_versions,
        reading.read_refs,
        reading.read_ancestry,
        reading.read_diff,
        reading.read_ops_log,
        reading.read_spec_version,
        reading.read_config,
        reading.read_state,
        reading.read_keys,
        reading.read_values,
        reading.read_nodes,
        reading.read_chunk_refs,
        reading.read_locations,
        reading.read_array,
        reading.read_contents,
        reading.inspect_snapshot,
        reading.inspect_manifest,
        reading.inspect_transaction_log,
        reading.inspect_repo_info,
        configuring.write_config,
        configuring.compare_config,
        writing.write_random_repository,
        writing.write_group,
        operating.operate,
        rebasing.run_rebase,
        rebasing.list_conflicts,
        rebasing.commit_with_rebase,
        maintaining.write_history,
        maintaining.maintain,
        maintaining.describe_history,
        maintaining.commit_again,
        serving.start_machine,
        serving.run_step,
        serving.stop_machine,
        rich.write_rich_repository,
        rich.read_rich_repository,
    )
}


def answer(line: bytes) -> bytes:
    """Do what a request asks, and say how it went."""
    # Whatever goes wrong belongs to the one who asked; the child goes on.
    try:
        return encode_line({"result": _call(**decode_line(line))})
    except Exception as error:
        kind, message = str(getattr(error, "kind", "")), str(error)
        return encode_line(
            {"error": {"type": type(error).__name__, "kind": kind, "message": message}}
        )


def _call(call: str, args: dict[str, Any]) -> Any:
    if "repository" in args:
        args["repository"] = open_repository(**args["repository"])
    return CALLS[call](**args)
