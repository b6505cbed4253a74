"""Decoding a file completely, and what may come of it."""

import re
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from itertools import islice
from types import FrameType

from frazil.errors import FormatError
from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    encode_repo_info,
)
from frazil.format.ids import SnapshotId
from frazil.format.manifest import Manifest
from frazil.format.metadata import decode_flexbuffers, decode_messagepack
from frazil.format.text_files import decode_config_yaml, decode_ref
from tests.fuzz import corpus

_NAMED_KIND = re.compile(
    "(snapshot|manifest|transaction-log|repo-info)( file)?: |(alpha|draft) [a-z -]+: |header: "
    "|FlexBuffers value: |MessagePack value: |ref file: |config.yaml: "
)
_SNAPSHOT_ID = SnapshotId(bytes(12))


class MisbehaviourError(Exception):
    """Something else than a value or a proper FormatError came of a file."""


def decode_completely(kind: str, data: bytes) -> bool:
    """Whether the file could be decoded; False where it was refused as it should be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _DECODERS[kind](data)
        accepted = True
    except FormatError as error:
        if not _NAMED_KIND.match(str(error)):
            raise MisbehaviourError(f"the message does not name the file: {error}") from error
        accepted = False
    except Exception as error:
        raise MisbehaviourError(f"{type(error).__name__}: {error}") from error
    return accepted


def decode_frugally(kind: str, data: bytes) -> bool:
    """The same, with calls and memory counted, which takes a few times as long.

    Calls stand for time: they are the same on a machine that has much else to do.
    """
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        accepted = decode_completely(kind, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    _hold("calls", calls, 1_000_000 + 16 * len(data), data)
    _hold("bytes of memory", peak, 64 * 2**20 + 64 * len(data), data)
    return accepted


def _hold(what: str, used: int, allowed: int, data: bytes) -> None:
    if used > allowed:
        raise MisbehaviourError(f"{used} {what} for a file of {len(data)}, {allowed} allowed")


def _decode_snapshot(data: bytes) -> None:
    snapshot = decode_snapshot(data).value
    dict(snapshot.metadata)
    dict(snapshot.nodes)


def _decode_manifest(data: bytes) -> None:
    manifest = decode_manifest(data).value
    _search_blindly(manifest)
    for node_id, table in manifest.tables().items():
        for index in islice(table.refs(), 4):
            manifest.find(node_id, index)


def _search_blindly(manifest: Manifest) -> None:
    """Search without having seen the columns, as readers of one chunk do."""
    for refs in islice(manifest.arrays.values(), 4):
        for axes in range(4):
            try:
                refs.find((1,) * axes)
            except FormatError:
                continue


def _decode_transaction_log(data: bytes) -> None:
    decode_transaction_log(data, _SNAPSHOT_ID)


def _decode_repo_info(data: bytes) -> None:
    info = decode_repo_info(data).value
    for metadata in (info.metadata, *(s.metadata for s in info.snapshots.values())):
        dict(metadata)
    if info.config is not None:
        info.config.get()
    tuple(info.latest_updates)
    # Whoever commits copies what he never looked at: from a file that nobody has touched, too.
    encode_repo_info(info)
    encode_repo_info(decode_repo_info(data).value)


_DECODERS: dict[str, Callable[[bytes], object]] = {
    corpus.SNAPSHOT: _decode_snapshot,
    corpus.MANIFEST: _decode_manifest,
    corpus.TRANSACTION_LOG: _decode_transaction_log,
    corpus.REPO_INFO: _decode_repo_info,
    corpus.REF: decode_ref,
    corpus.CONFIG: decode_config_yaml,
    corpus.FLEXBUFFERS: decode_flexbuffers,
    corpus.MESSAGEPACK: decode_messagepack,
}
