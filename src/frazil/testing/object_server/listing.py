"""How a bucket lists its objects, a page at a time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from frazil.testing.object_server.bucket import Bucket, Refusal
from frazil.testing.object_server.exchange import XML, Request, Response


def list_objects(bucket: Bucket, request: Request, page_size: int) -> Response:
    """The page of a listing that a request asks for."""
    query = request.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
    limit = min(page_size, int(query.get("max-keys", "1000")))
    spell = quote if query.get("encoding-type") == "url" else escape
    entries: list[str] = []
    last = ""
    is_truncated = False
    for name, is_group in _names(bucket.keys(), prefix, delimiter):
        if name.encode() <= after.encode():
            continue
        if len(entries) == limit:
            is_truncated = True
            break
        entries.append(_entry(bucket, name, is_group, spell(name)))
        last = name
    token = f"<NextContinuationToken>{quote(last)}</NextContinuationToken>" if is_truncated else ""
    body = (
        f"<ListBucketResult><Name>{escape(request.bucket)}</Name><Prefix>{spell(prefix)}</Prefix>"
        f"<KeyCount>{len(entries)}</KeyCount><MaxKeys>{limit}</MaxKeys>"
        f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>{token}"
        f"{''.join(entries)}</ListBucketResult>"
    )
    return Response(200, XML, body.encode())


def _names(keys: list[str], prefix: str, delimiter: str) -> Iterator[tuple[str, bool]]:
    """Keys, and in place of those below a delimiter what they share, once."""
    previous = None
    for key in keys:
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        name, is_group = (prefix + head + found, True) if found else (key, False)
        if name != previous:
            yield name, is_group
        previous = name


def _entry(bucket: Bucket, name: str, is_group: bool, spelled: str) -> str:
    if is_group:
        return f"<CommonPrefixes><Prefix>{spelled}</Prefix></CommonPrefixes>"
    try:
        stored = bucket.get(name)
    except Refusal:
        return ""
    return (
        f"<Contents><Key>{spelled}</Key><LastModified>{spell_time(stored.modified_at)}</LastModified>"
        f"<ETag>{escape(stored.e_tag)}</ETag><Size>{len(stored.data)}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def spell_time(timestamp: float) -> str:
    """A time as the XML of S3 has it."""
    text = datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
