"""Object stores keep the contract on real servers: SeaweedFS for S3, Azurite for Azure.

SeaweedFS serves four or five requests a second when sixteen threads want one key, so that the races
are short there; the server inside this process runs a thousand rounds.
"""

import base64
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from itertools import count

import pytest

from frazil.storage import Storage
from frazil.testing.storage_contract import StorageContract
from tests.storage.object_stores import (
    AZURE_ACCOUNT,
    AZURE_KEY,
    make_azure,
    make_s3,
    wait_until_writable,
)
from tests.storage.servers import ServerMissing, run_azurite, skip_or_fail

FOLDERS = count(1)


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with run_azurite(tmp_path_factory.mktemp("azurite")) as url:
            create_container(url, "container")
            wait_until_writable(make_azure(url, container="container"))
            yield url
    except ServerMissing as missing:
        skip_or_fail(missing)


@pytest.mark.xdist_group("seaweedfs")
class TestS3OnSeaweedFS(StorageContract):
    survives_fork = False
    race_rounds = 3
    race_threads = 4
    many_objects = 1_010

    @pytest.fixture
    def storage(self, seaweedfs: str) -> Storage:
        return make_s3(seaweedfs, prefix=f"folder/{next(FOLDERS)}")


@pytest.mark.xdist_group("azurite")
class TestAzureOnAzurite(StorageContract):
    survives_fork = False
    race_rounds = 20
    many_objects = 300
    """Enough for a second answer would be five thousand."""

    @pytest.fixture
    def storage(self, azurite: str) -> Storage:
        return make_azure(azurite, container="container", prefix=f"folder/{next(FOLDERS)}")


def create_container(url: str, container: str) -> None:
    """Make a container, which obstore can't."""
    date = formatdate(usegmt=True)
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{container}\nrestype:container"
    headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
    text = "PUT" + "\n" * 12 + f"{headers}\n{resource}"
    digest = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(
        f"{url}/{AZURE_ACCOUNT}/{container}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}",
        },
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(request, timeout=10).close()
