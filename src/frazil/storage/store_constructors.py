"""The functions that say where virtual chunks are, as users of Icechunk call them."""

from frazil.storage.store_config import ChecksumAlgorithm, ObjectStoreConfig, S3Options


def http_store(
    opts: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> ObjectStoreConfig.Http:
    """Web servers; `opts` are options of obstore's client, `headers` go out with every request."""
    return ObjectStoreConfig.Http(opts, headers)


def local_filesystem_store(
    path: str,
) -> ObjectStoreConfig.LocalFileSystem:
    """A directory."""
    return ObjectStoreConfig.LocalFileSystem(path)


def s3_store(
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    anonymous: bool = False,
    s3_compatible: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: ChecksumAlgorithm | None = None,
) -> ObjectStoreConfig.S3Compatible | ObjectStoreConfig.S3:
    """S3, or what speaks like it."""
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        anonymous=anonymous,
        checksum_algorithm=checksum_algorithm,
    )
    return (
        ObjectStoreConfig.S3Compatible(options) if s3_compatible else ObjectStoreConfig.S3(options)
    )


def gcs_store(
    opts: dict[str, str] | None = None,
) -> ObjectStoreConfig.Gcs:
    """Google Cloud Storage, with obstore's options for it."""
    return ObjectStoreConfig.Gcs(opts)


def azure_store(
    *,
    account: str,
    config: dict[str, str] | None = None,
) -> ObjectStoreConfig.Azure:
    """Azure Blob Storage, with obstore's options for it."""
    return ObjectStoreConfig.Azure({"account": account, **(config or {})})
