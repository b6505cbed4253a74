"""Leave to read containers of virtual chunks."""

import frazil
from frazil.credentials import LocalFileSystemAccess


def test_leave_for_more_containers_leaves_what_was_given() -> None:
    repository = frazil.Repository.create(
        frazil.in_memory_storage(),
        authorize_virtual_chunk_access={"file:///one/": LocalFileSystemAccess},
    )

    more = repository.authorize({"file:///two/": LocalFileSystemAccess})

    assert more.authorized_virtual_container_prefixes == {"file:///one/", "file:///two/"}
    assert repository.authorized_virtual_container_prefixes == {"file:///one/"}
    assert more.storage is repository.storage
