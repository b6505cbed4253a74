"""What `benchmarks/storage.py` measures on an S3 server: our storage beside obstore used directly."""

import os

import obstore
from obstore.store import S3Store

from benchmarks.support.measuring import Figures, answer
from benchmarks.support.storage_rounds import take_turns
from frazil.storage import s3_storage
from frazil.storage.interface import Storage

OBJECTS = 16


def read(server: dict[str, str], size: int, at_once: int, operations: int) -> Figures:
    """Whole objects."""
    ours, store = _open(**server)
    names = [f"read/{size}/{number}" for number in range(OBJECTS)]
    for name in names:
        ours.put(name, os.urandom(size))
    return take_turns(
        {
            "obstore": lambda number: obstore.get(store, names[number % OBJECTS]).bytes(),
            "ours": lambda number: ours.get(names[number % OBJECTS]),
        },
        operations=operations,
        size=size,
        at_once=at_once,
    )


def write(server: dict[str, str], size: int, at_once: int, operations: int) -> Figures:
    """Objects, over older ones."""
    ours, store = _open(**server)
    data = os.urandom(size)
    return take_turns(
        {
            "obstore": lambda number: obstore.put(store, f"write/theirs/{number % OBJECTS}", data),
            "ours": lambda number: ours.put(f"write/ours/{number % OBJECTS}", data),
        },
        operations=operations,
        size=size,
        at_once=at_once,
    )


def _open(url: str, bucket: str, key: str, secret: str) -> tuple[Storage, S3Store]:
    ours = s3_storage(
        bucket=bucket,
        prefix="benchmark",
        region="us-east-1",
        endpoint_url=url,
        allow_http=True,
        force_path_style=True,
        access_key_id=key,
        secret_access_key=secret,
    )
    store = S3Store(
        bucket,
        prefix="benchmark",
        region="us-east-1",
        endpoint=url,
        access_key_id=key,
        secret_access_key=secret,
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    return ours, store


if __name__ == "__main__":
    answer({"read": read, "write": write})
