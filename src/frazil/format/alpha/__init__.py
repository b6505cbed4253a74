"""Files of the alpha releases 0.1.0a1 to 0.1.3: MessagePack in eight layouts, A to H.

Which layout a file has is seen from its structure, never from the name of its writer: development
builds carried the name of the release before. A single file can't always tell; decoding then gives
the oldest dialect that fits, so the newest one among a repository's files is the repository's.
"""

from frazil.format.alpha.manifest import (
    decode_manifest,
    decode_manifest_payload,
    encode_manifest,
)
from frazil.format.alpha.messagepack import is_messagepack_payload
from frazil.format.alpha.snapshot import (
    decode_snapshot,
    decode_snapshot_payload,
    encode_snapshot,
)
from frazil.format.alpha.transaction_log import (
    decode_transaction_log,
    decode_transaction_log_payload,
    encode_transaction_log,
)

__all__ = [
    "decode_manifest",
    "decode_manifest_payload",
    "decode_snapshot",
    "decode_snapshot_payload",
    "decode_transaction_log",
    "decode_transaction_log_payload",
    "encode_manifest",
    "encode_snapshot",
    "encode_transaction_log",
    "is_messagepack_payload",
]
