"""Which test runs which page, and what stands for a cloud meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from frazil.testing.object_server import ObjectServer, ServerOptions

HERE = (
    "README.md", "docs/README.md", "docs/authorize.md", "docs/checking.md",
    "docs/configuration.md", "docs/history.md", "docs/storage.md",
    "docs/urls.md",
    "docs/how-to/clean-up.md", "docs/how-to/conflicts.md", "docs/how-to/derive-datasets.md",
    "docs/how-to/migrate.md", "docs/how-to/object-stores.md", "docs/how-to/observe.md",
    "docs/how-to/operate-a-dataset.md", "docs/how-to/quick-start.md", "docs/how-to/recover.md",
    "docs/how-to/share.md", "docs/how-to/virtual-data.md", "docs/tutorials/icechunk-user.md",
    "docs/tutorials/operator.md", "docs/tutorials/scientist.md",
)  # fmt: skip
"""Pages that need no Spark: `test_pages`."""
ON_SPARK = (
    "docs/keeping.md", "docs/pipeline.md", "docs/sql.md", "docs/tables.md",
    "docs/writing.md",
    "docs/how-to/append-every-day.md", "docs/how-to/ingest-an-archive.md",
    "docs/how-to/points-and-zones.md", "docs/how-to/query-with-sql.md",
    "docs/how-to/run-on-a-cluster.md", "docs/tutorials/spark-engineer.md",
)  # fmt: skip
"""`tests/spark/test_documentation.py`."""
ELSEWHERE = {
    "docs/benchmarks.md": "`make bench`, which takes too long for a test",
    "docs/cli.md": "tests/unit/cli/test_documentation.py",
    "docs/virtual.md": "tests/virtual/test_documentation.py",
}
NOT_RUN: Mapping[str, int] = {"docs/how-to/share.md": 1, "docs/tables.md": 1}
"""How many blocks of a page no test runs: they need a real cloud, or a server that runs pipelines."""


@contextmanager
def cloud(monkeypatch: pytest.MonkeyPatch, *buckets: str) -> Iterator[Mapping[str, str]]:
    """A server that speaks like S3; gives what to replace for pages to find it instead of Amazon's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with ObjectServer(ServerOptions(buckets=buckets)) as server:
        address = f'endpoint_url="{server.url}", allow_http=True, force_path_style=True'
        yield {
            "region=eu-central-1": f"region=eu-central-1&endpoint_url={server.url}"
            "&allow_http&force_path_style",
            'region="eu-central-1"': f'region="eu-central-1", {address}',
        }
