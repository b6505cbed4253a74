"""Object stores keep the contract, on the server inside this process."""

from collections.abc import Iterator

import pytest

from frazil.storage import Storage
from frazil.testing.object_server import ObjectServer
from frazil.testing.storage_contract import StorageContract
from tests.storage.object_stores import make_gcs, make_s3


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


class TestS3(StorageContract):
    survives_fork = False

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        return make_s3(server.url)


class TestS3AtTheRootOfABucket(StorageContract):
    survives_fork = False
    race_rounds = 20

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        return make_s3(server.url, prefix="")


class TestGoogleCloudStorage(StorageContract):
    survives_fork = False
    race_rounds = 200

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        return make_gcs(server.url)
