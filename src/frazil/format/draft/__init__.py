"""Files of the draft of the format: JSON, ids of 16 bytes, numbered nodes, no transaction logs.

No library wrote such files. Where the draft leaves something open, the modules here say what is
written and what is read.
"""

from frazil.format.draft.form import refuse_data_type
from frazil.format.draft.manifest import decode_manifest, encode_manifest
from frazil.format.draft.snapshot import decode_snapshot, encode_snapshot

__all__ = [
    "decode_manifest",
    "decode_snapshot",
    "encode_manifest",
    "encode_snapshot",
    "refuse_data_type",
]
