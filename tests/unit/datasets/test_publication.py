"""Hooks and log lines tell others what a run did, and no secrets."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import BaseError

from frazil import ObjectStoreConfig, VirtualChunkContainer
from frazil.datasets import load
from frazil.datasets.declaration import NamedCredentials
from frazil.datasets.publication import JsonFormatter, notify
from frazil.errors import PermissionDeniedError, SetupError, StorageError
from frazil.format.manifest import VirtualRef
from frazil.virtual.access import VirtualChunkAccess
from frazil.virtual.source_formats import SourceStores

opened = pytest.importorskip("frazil.datasets.opened_dataset", exc_type=ModuleNotFoundError)


@contextmanager
def serving(answers: list[tuple[int, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """A web server that gives these answers in turn, and what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.path, dict(self.headers), self.rfile.read(length)))
            status, body = answers[min(len(asked), len(answers)) - 1]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST  # noqa: N815 (the name that the library calls)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def declare(**hook: Any) -> Any:
    return load({"repository": "r", "sources": {"files": ["x"]}, "notify": [hook]})


def test_a_webhook_is_tried_again_and_hides_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([(503, {}), (200, {})]) as (url, asked):
        monkeypatch.setenv("HOOK", f"{url}/services/secret-path")
        monkeypatch.setenv("TOKEN", "Bearer very-secret")
        hook = declare(url_env="HOOK", headers_env={"Authorization": "TOKEN"})

        (done,) = notify(hook, "published", {"files": 3})

    assert done == "HOOK: done"
    assert len(asked) == 2
    path, headers, body = asked[1]
    assert path == "/services/secret-path"
    assert headers["Authorization"] == "Bearer very-secret"
    assert json.loads(body) == {"dataset": "r", "outcome": "published", "report": {"files": 3}}


def test_a_hook_that_fails_fails_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    with serving([(403, {})]) as (url, asked):
        (refused,) = notify(declare(url=f"{url}/x"), "failed", {})
    assert (refused, len(asked)) == ("webhook: the server answered 403", 1)
    (unset,) = notify(declare(url_env="HOOK"), "failed", {})
    assert "HOOK of a hook is not set" in unset
    (exited,) = notify(declare(command=["false"], tries=1), "failed", {})
    assert exited == "false: it exited with 1 (1 attempts)"
    assert not list(notify(declare(command=["false"], on=["stale"]), "failed", {}))
    out = tmp_path / "out"
    list(
        notify(
            declare(command=["sh", "-c", f"cat > {out}; echo $FRAZIL_OUTCOME >> {out}"]), "stale", 1
        )
    )
    assert out.read_text().endswith("stale\n")


def test_log_lines_are_json_without_secrets() -> None:
    record = logging.makeLogRecord(
        {
            "msg": "published",
            "levelname": "INFO",
            "files": 3,
            "url": "s3://b?X-Amz-Signature=abcdef",
        }
    )

    line = JsonFormatter().format(record)

    found = json.loads(line)
    assert (found["event"], found["level"], found["files"]) == ("published", "info", 3)
    assert "abcdef" not in line


def test_profiles_give_keys_processes_and_single_sign_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".aws/sso/cache").mkdir(parents=True)
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = key\naws_secret_access_key = word\n"
    )
    process = json.dumps(
        {"AccessKeyId": "p", "SecretAccessKey": "q", "Expiration": "2999-01-01T00:00:00Z"}
    )
    (tmp_path / ".aws/config").write_text(
        f"[profile process]\ncredential_process = echo '{process}'\n"
        "[profile sso]\nsso_session = home\nsso_account_id = 12\nsso_role_name = reader\n"
        "[sso-session home]\nsso_region = eu-central-1\nsso_start_url = https://x\n"
    )
    assert opened.AwsProfile()().access_key_id == "key"
    found = opened.AwsProfile("process")()
    assert found.access_key_id == "p"
    assert found.expires_after is not None
    with pytest.raises(SetupError, match="no profile 'other'"):
        opened.AwsProfile("other")()
    with pytest.raises(SetupError, match="aws sso login --profile sso"):
        opened.AwsProfile("sso")()
    cache = tmp_path / ".aws/sso/cache" / f"{sha1(b'home').hexdigest()}.json"
    cache.write_text('{"accessToken": "t", "expiresAt": "2999-01-01T00:00:00Z"}')
    role = {"accessKeyId": "a", "secretAccessKey": "b", "sessionToken": "c", "expiration": 4e12}
    with serving([(200, {"roleCredentials": role})]) as (url, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", url)
        assert opened.AwsProfile("sso")().session_token == "c"
    assert asked[0][0] == "/federation/credentials?account_id=12&role_name=reader"
    cache.write_text('{"accessToken": "t", "expiresAt": "2000-01-01T00:00:00Z"}')
    with pytest.raises(PermissionDeniedError, match="expired"):
        opened.AwsProfile("sso")()


def test_tokens_are_looked_up_when_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    declared = load({
        "repository": "r",
        "sources": {"files": ["https://host/x.nc"]},
        "credentials": {
            "file": {"kind": "bearer", "token_file": str(file)},
            "command": {"kind": "bearer", "token_command": ["echo", "one"]},
            "nasa": {"kind": "earthdata", "endpoint": "http://host", "token_env": "EDL"},
        },
    }).credentials  # fmt: skip
    bearer = opened.find_credential(declared["file"])
    with pytest.raises(SetupError, match="holds no token"):
        bearer.get_token()
    file.write_text("two\n")
    assert bearer.get_token() == "two"
    assert opened.find_token(declared["command"]) == "one"
    monkeypatch.setenv("EDL", "mine")
    keys = {"accessKeyId": "a", "secretAccessKey": "b", "sessionToken": "c"}
    with serving([(200, keys), (401, {})]) as (url, asked):
        nasa = opened.TemporaryS3(declared["nasa"].model_copy(update={"endpoint": f"{url}/s3"}))
        assert nasa().secret_access_key == "b"
        assert asked[0][1]["Authorization"] == "Bearer mine"
        with pytest.raises(PermissionDeniedError, match="answered 401"):
            nasa()


def test_a_token_is_looked_up_again_and_sent_with_later_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    declared = NamedCredentials(kind="bearer", token_file=str(file))
    with serving([(200, "x" * 100)]) as (url, asked):
        stores = SourceStores((), {f"{url}/": opened.find_credential(declared)})
        container = VirtualChunkContainer(f"{url}/", ObjectStoreConfig.Http())
        access = VirtualChunkAccess(
            {f"{url}/": container}, {f"{url}/": opened.find_credential(declared)}
        )
        reference = VirtualRef(f"{url}/a.nc", 0, 5, None)
        for age, token in ((0, "two"), (60, "three")):
            monkeypatch.setattr("frazil.storage.source_objects._TOKEN_SECONDS", 60 - age)
            for _ in range(2):
                with suppress(BaseError):  # the server answers no lengths
                    obstore.get(*stores.resolve(f"{url}/a.nc"))
                with suppress(StorageError):
                    access.read(reference, 0, 5)
            file.write_text(token)

    sent = [headers["authorization"] for _, headers, _ in asked]
    assert len(sent) >= 8
    assert [token for token, _ in groupby(sent)] == ["Bearer one", "Bearer two"]
