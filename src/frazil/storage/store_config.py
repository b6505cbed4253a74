"""Object store configurations of virtual chunk containers."""

from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum

from frazil.display import Block, Item, Rendered, public_name, render_call
from frazil.lazy import dataclass
from frazil.urls import is_secret


class ChecksumAlgorithm(Enum):
    """Checksum algorithm for the bodies of writes to S3."""

    Crc32 = 0
    Crc32c = 1
    Crc64Nvme = 2
    Sha1 = 3
    Sha256 = 4


class ChunkType(IntEnum):
    """Storage kind of a chunk: native, inline, virtual or uninitialized.

    Equal to the numbers that `array_chunk_iterator` yields.
    """

    uninitialized = 0
    native = 1
    virtual = 2
    inline = 3

    def __str__(self) -> str:
        return f"ChunkType.{self.name}"


@dataclass(slots=True, repr=False)
class S3Options(Rendered):
    """Options of S3 or of an S3-compatible store.

    Parameters
    ----------
    region, endpoint_url, allow_http, force_path_style
        Address of the store.
    anonymous
        Send requests without credentials.
    network_stream_timeout_seconds
        Read timeout; 0 for none, None for the default of the storage.
    requester_pays
        Accept the charges of a requester-pays bucket.
    checksum_algorithm
        Checksum of the bodies of writes.
    """

    region: str | None = None
    endpoint_url: str | None = None
    allow_http: bool = False
    anonymous: bool = False
    force_path_style: bool = False
    network_stream_timeout_seconds: int | None = None
    """Read timeout; 0 for none, None for the default of the storage."""
    requester_pays: bool = False
    checksum_algorithm: ChecksumAlgorithm | None = None


class _Variant(Block):
    """One kind of store, displayed as the call that creates it, with secrets masked."""

    __slots__ = ()

    def _arguments(self) -> tuple[object, ...]:
        raise NotImplementedError

    def shown_items(self) -> Iterator[Item]:
        """Yield the arguments by name, with the options of S3 one by one."""
        names: tuple[str, ...] = self.__slots__
        for name, each in zip(names, self._arguments(), strict=True):
            if isinstance(each, Rendered):
                yield from each.shown_items()
            else:
                yield Item(name, each)

    def __repr__(self) -> str:
        arguments = ", ".join(render_call(each) for each in self._arguments())
        return f"{public_name(self)}({arguments})"


class ObjectStoreConfig:
    """Kinds of object stores, one class each."""

    @dataclass(frozen=True, slots=True, repr=False)
    class InMemory(_Variant):
        """Memory of this process."""

        def _arguments(self) -> tuple[object, ...]:
            return ()

    @dataclass(frozen=True, slots=True, repr=False)
    class LocalFileSystem(_Variant):
        """Directory of the local file system."""

        path: str

        def _arguments(self) -> tuple[object, ...]:
            return (self.path,)

    @dataclass(frozen=True, slots=True, repr=False)
    class S3Compatible(_Variant):
        """S3-compatible store."""

        options: S3Options

        def _arguments(self) -> tuple[object, ...]:
            return (self.options,)

    @dataclass(frozen=True, slots=True, repr=False)
    class S3(_Variant):
        """Amazon S3."""

        options: S3Options

        def _arguments(self) -> tuple[object, ...]:
            return (self.options,)

    @dataclass(frozen=True, slots=True, repr=False)
    class Gcs(_Variant):
        """Google Cloud Storage, with obstore's options."""

        opts: Mapping[str, str] | None = None

        def _arguments(self) -> tuple[object, ...]:
            return (cover(self.opts),)

    @dataclass(frozen=True, slots=True, repr=False)
    class Azure(_Variant):
        """Azure Blob Storage, with obstore's options."""

        opts: Mapping[str, str] | None = None

        def _arguments(self) -> tuple[object, ...]:
            return (cover(self.opts),)

    @dataclass(frozen=True, slots=True, repr=False)
    class Tigris(_Variant):
        """Tigris."""

        opts: S3Options

        def _arguments(self) -> tuple[object, ...]:
            return (self.opts,)

    @dataclass(frozen=True, slots=True, repr=False)
    class Http(_Variant):
        """Web server, with client options and headers of every request."""

        opts: Mapping[str, str] | None = None
        headers: Mapping[str, str] | None = None

        def _arguments(self) -> tuple[object, ...]:
            # A header may hold an authorization, so all values are masked.
            covered = None if self.headers is None else dict.fromkeys(self.headers, "****")
            return (cover(self.opts), covered)


AnyObjectStoreConfig = (
    ObjectStoreConfig.InMemory
    | ObjectStoreConfig.LocalFileSystem
    | ObjectStoreConfig.S3
    | ObjectStoreConfig.S3Compatible
    | ObjectStoreConfig.Gcs
    | ObjectStoreConfig.Azure
    | ObjectStoreConfig.Tigris
    | ObjectStoreConfig.Http
)


def cover(options: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return options with the values of secrets masked."""
    if options is None:
        return None
    return {name: "****" if is_secret(name) else value for name, value in options.items()}


def http_store(
    opts: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> ObjectStoreConfig.Http:
    """Create the configuration of a web server.

    Parameters
    ----------
    opts
        Options of obstore's client.
    headers
        HTTP headers of every request.

    Returns
    -------
    ObjectStoreConfig.Http
    """
    return ObjectStoreConfig.Http(opts, headers)


def local_filesystem_store(
    path: str,
) -> ObjectStoreConfig.LocalFileSystem:
    """Create the configuration of a local directory.

    Parameters
    ----------
    path
        The directory.

    Returns
    -------
    ObjectStoreConfig.LocalFileSystem
    """
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
    """Create the configuration of S3 or of an S3-compatible store.

    Parameters
    ----------
    s3_compatible
        Return an `S3Compatible` configuration, for a store other than Amazon's.
    region, endpoint_url, allow_http, anonymous, force_path_style, network_stream_timeout_seconds
        Fields of `S3Options`.
    requester_pays, checksum_algorithm
        Fields of `S3Options`.

    Returns
    -------
    ObjectStoreConfig.S3 or ObjectStoreConfig.S3Compatible
    """
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
    """Create the configuration of Google Cloud Storage.

    Parameters
    ----------
    opts
        Options of obstore for the store and its client.

    Returns
    -------
    ObjectStoreConfig.Gcs
    """
    return ObjectStoreConfig.Gcs(opts)


def azure_store(
    *,
    account: str,
    config: dict[str, str] | None = None,
) -> ObjectStoreConfig.Azure:
    """Create the configuration of Azure Blob Storage.

    Parameters
    ----------
    account
        Name of the storage account.
    config
        Options of obstore for the store and its client.

    Returns
    -------
    ObjectStoreConfig.Azure
    """
    return ObjectStoreConfig.Azure({"account": account, **(config or {})})
