"""Transaction logs: pure checks of one file."""

from dataclasses import fields

from frazil.format.dialect import Decoded, Dialect
from frazil.format.files import decode_transaction_log
from frazil.format.header import FileType, decode_file
from frazil.format.ids import SnapshotId
from frazil.format.transaction_log import TransactionLog
from frazil.format.v2.orders import find_unordered_in_log
from frazil.maintenance.checking.problems import Problem, Problems, Repair, error, note
from frazil.maintenance.checking.snapshots import check_header

_FLATBUFFERS = (Dialect.V1, Dialect.V2)
_WITHOUT_LOGS = (Dialect.DRAFT, Dialect.ALPHA_A)


def needs_log(dialect: Dialect, *, is_first: bool) -> bool:
    """Whether a snapshot whose file is in a dialect has a transaction log."""
    if dialect in _WITHOUT_LOGS:
        return False
    return dialect is Dialect.V2 or not is_first


def check_log_file(
    data: bytes, id: SnapshotId, key: str, dialect: Dialect, *, is_first: bool
) -> tuple[Problem, ...]:
    """Look at a transaction log of a repository in a dialect; raises FormatError for a damaged one."""
    decoded = decode_transaction_log(data, id)
    return (
        *check_header(decoded.header, key, dialect),
        *_check_contents(decoded, id, key, is_first=is_first),
        *_check_order(data, decoded.dialect, key),
    )


def _check_contents(
    decoded: Decoded[TransactionLog], id: SnapshotId, key: str, *, is_first: bool
) -> Problems:
    log = decoded.value
    if log.id != id:
        yield error(key, f"the log in it is that of {log.id}", Repair.REBUILD_LOG)
    contents = [getattr(log, each.name) for each in fields(log) if each.name != "id"]
    if is_first and any(contents):
        yield error(key, "it tells of changes in the first snapshot, which has none")


def _check_order(data: bytes, dialect: Dialect, key: str) -> Problems:
    if dialect not in _FLATBUFFERS:
        return
    _, payload = decode_file(data, FileType.TRANSACTION_LOG)
    for name in find_unordered_in_log(payload):
        if dialect is Dialect.V1:
            yield note(key, f"{name} is not in order, as releases up to 1.1.21 wrote it")
        else:
            yield error(key, f"{name} is not in order", Repair.REBUILD_LOG)
