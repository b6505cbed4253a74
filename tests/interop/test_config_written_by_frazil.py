"""Configurations that Frazil encodes, as the official library reads them."""

from pathlib import Path
from typing import Any

import pytest

from frazil.format.header import Dialect
from tests.interop.building import DIALECTS, FIRST_SNAPSHOT, Contents, RepositoryFiles
from tests.interop.official_library import OfficialLibrary

CONFIG: dict[str, Any] = {
    "inline_chunk_threshold_bytes": 7,
    "get_partial_values_concurrency": None,
    "max_concurrent_requests": 12,
    "num_updates_per_repo_info_file": 99,
    "compression": {"algorithm": "zstd", "level": 9},
    "caching": {"num_snapshot_nodes": 5, "num_chunk_refs": None},
    "storage": {
        "concurrency": {"max_concurrent_requests_for_object": 3},
        "unsafe_use_conditional_create": True,
        "storage_class": "STANDARD_IA",
    },
    "virtual_chunk_containers": {
        "s3://bucket/": {
            "name": "données ☃",
            "url_prefix": "s3://bucket/",
            "store": {
                "s3": {
                    "region": "eu-west-1",
                    "endpoint_url": None,
                    "anonymous": True,
                    "allow_http": False,
                    "force_path_style": False,
                    "network_stream_timeout_seconds": 30,
                    "requester_pays": False,
                }
            },
        },
        "gcs://bucket/": {
            "name": None,
            "url_prefix": "gcs://bucket/",
            "store": {"gcs": {"option": "yes"}},
        },
        "file:///somewhere/": {
            "name": "files",
            "url_prefix": "file:///somewhere/",
            "store": {"local_file_system": "/somewhere"},
        },
    },
    "manifest": {
        "preload": {
            "max_total_refs": 100,
            "preload_if": {
                "and": [
                    {"or": [{"name_matches": {"regex": "^t$"}}, {"path_matches": {"regex": "/é"}}]},
                    {"num_refs": {"from": {"Included": 2}, "to": "Unbounded"}},
                    "true",
                ]
            },
        },
        "splitting": {
            "split_sizes": [
                [
                    {"name_matches": {"regex": "^grid$"}},
                    [
                        {"condition": {"Axis": 0}, "num_chunks": 2},
                        {"condition": {"DimensionName": "x"}, "num_chunks": 3},
                    ],
                ],
                ["any_array", [{"condition": "Any", "num_chunks": 50}]],
            ]
        },
        "virtual_chunk_location_compression": {"min_num_chunks": 20, "compression_level": 4},
    },
}


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"v{dialect.value}")
def read_config(
    request: pytest.FixtureRequest, official: OfficialLibrary, tmp_path: Path
) -> dict[str, Any]:
    """The configuration above, as the official library found it in a repository."""
    dialect: Dialect = request.param
    contents = Contents([FIRST_SNAPSHOT], {"main": FIRST_SNAPSHOT.id}, config=CONFIG)
    RepositoryFiles(tmp_path, dialect).write(contents)
    config: dict[str, Any] = official.open(tmp_path).call("read_config")
    return config


def test_numbers_and_texts_are_read(read_config: dict[str, Any]) -> None:
    for name in (
        "inline_chunk_threshold_bytes",
        "get_partial_values_concurrency",
        "max_concurrent_requests",
        "num_updates_per_repo_info_file",
    ):
        assert read_config[name] == CONFIG[name]
    assert read_config["compression"] == {"algorithm": "CompressionAlgorithm.Zstd", "level": 9}
    assert CONFIG["caching"].items() <= read_config["caching"].items()
    storage = read_config["storage"]
    assert storage["concurrency"]["max_concurrent_requests_for_object"] == 3
    assert storage["unsafe_use_conditional_create"] is True
    assert storage["storage_class"] == "STANDARD_IA"


def test_virtual_chunk_containers_are_read(read_config: dict[str, Any]) -> None:
    containers = read_config["virtual_chunk_containers"]

    assert {prefix: found["name"] for prefix, found in containers.items()} == {
        "s3://bucket/": "données ☃",
        "gcs://bucket/": None,
        "file:///somewhere/": "files",
    }
    stores = {prefix: found["store"].split(".")[-1] for prefix, found in containers.items()}
    assert stores["file:///somewhere/"] == 'LocalFileSystem("/somewhere")'
    assert stores["gcs://bucket/"] == 'Gcs(Some({"option": "yes"}))'
    s3 = containers["s3://bucket/"]["store"]
    assert 'region="eu-west-1"' in s3
    assert "anonymous=True" in s3
    assert "network_stream_timeout_seconds=30" in s3


def test_conditions_of_manifests_are_read(read_config: dict[str, Any]) -> None:
    manifest = read_config["manifest"]

    preload_if = manifest["preload"]["preload_if"].replace(
        "icechunk.config.ManifestPreloadCondition.", ""
    )
    split_sizes = manifest["splitting"]["split_sizes"].replace("icechunk.config.Manifest", "")
    assert manifest["preload"]["max_total_refs"] == 100
    assert preload_if == (
        'and_conditions([or_conditions([name_matches("^t$"), path_matches("/é")]), '
        "num_refs(2, None), true()])"
    )
    assert split_sizes == (
        '[(SplitCondition.name_matches("^grid$"), [(SplitDimCondition.axis(0), 2), '
        '(SplitDimCondition.dimension_name("x"), 3)]), '
        "(SplitCondition.any_array(), [(SplitDimCondition.any(), 50)])]"
    )
    assert manifest["virtual_chunk_location_compression"]["min_num_chunks"] == 20
    assert manifest["virtual_chunk_location_compression"]["compression_level"] == 4
