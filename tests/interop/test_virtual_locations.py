"""Locations of virtual chunks are spelled as the official library spells them."""

import json
import random
import subprocess

from frazil.errors import InvalidInputError
from frazil.virtual.containers import normalize_location
from tests.interop.official_library import ROOT, find_python

NORMALIZE = """
import json, sys
import icechunk, zarr

session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
zarr.create_array(session.store, name="array", shape=(1,), chunks=(1,), dtype="i1")

def normalize(location):
    try:
        session.store.set_virtual_ref(
            "array/c/0", location, offset=0, length=1, validate_container=False
        )
    except icechunk.IcechunkError as error:
        return error.kind
    return session.all_virtual_chunk_locations()[0]

print(json.dumps([normalize(location) for location in json.load(sys.stdin)]))
"""

STARTS = (
    "file:///",
    "FILE://H/",
    "file://localhost/",
    "file:/x/",
    "file:x/",
    "s3://B/",
    "HTTP://h:1/",
)
PIECES = (
    "a", "B", "", ".", "..", "%2e", "%2E.", "a b", "%20", "%zz", "%2F", "ü", "%C3%BC", "a|b", "^", "`",
    "{x}", '"', "<>", "[0]", "'", "a:b", "@", "~", "a\\b", "a\tb", "?q=' {1}", "#f", "c=1&d;e,f", "…",
)  # fmt: skip
REFUSED = (
    "",
    "file://a|b/",
    "file://%2f/",
    "plain",
    "/path",
    "s3:key",
    "s3:/key",
    "s3://",
    "s3:///key",
    "http://",
)


def spell(location: str) -> str:
    try:
        return normalize_location(location)
    except InvalidInputError as error:
        return error.kind


def test_locations_are_normalized_alike() -> None:
    chance = random.Random(5)
    given = [
        chance.choice(STARTS) + "/".join(chance.choices(PIECES, k=chance.randint(1, 6)))
        for _ in range(1000)
    ]

    run = subprocess.run(
        [find_python(), "-c", NORMALIZE],
        input=json.dumps([*REFUSED, *given]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    official = dict(zip([*REFUSED, *given], json.loads(run.stdout), strict=True))
    assert official == {location: spell(location) for location in official}
