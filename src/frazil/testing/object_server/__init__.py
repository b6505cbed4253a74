"""Object store in the test process: S3 and GCS, with exact conditions and fault injection.

::

    with ObjectServer() as server:
        storage = s3_storage(bucket="bucket", prefix="p", endpoint_url=server.url, allow_http=True,
        …) server.inject([Rule(LoseResponse(), method="PUT", count=1)])
"""

from frazil.testing.object_server.bucket import Bucket, Conditions, Request, StoredObject
from frazil.testing.object_server.s3_api import (
    CONFLICT,
    SLOW_DOWN,
    Delay,
    DoAndRefuse,
    DropConnection,
    Fault,
    LoseResponse,
    Refuse,
    Rule,
    Truncate,
)
from frazil.testing.object_server.server import ObjectServer, ServerOptions

__all__ = [
    "CONFLICT",
    "SLOW_DOWN",
    "Bucket",
    "Conditions",
    "Delay",
    "DoAndRefuse",
    "DropConnection",
    "Fault",
    "LoseResponse",
    "ObjectServer",
    "Refuse",
    "Request",
    "Rule",
    "ServerOptions",
    "StoredObject",
    "Truncate",
]
