"""Who may read the pages: which hosts are answered to, and with which token."""

import base64
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import frazil
from frazil.web.web_app import Token, find_hosts, is_loopback, make_app, parse_host, read_host
from tests.command_line import make_frazil

from .conftest import TOKEN
from .test_pages import get


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "[::1", "a@127.0.0.1", ""]
)
def test_a_foreign_host_name_is_refused_on_loopback(site: str, host: str) -> None:
    for page in ("/", "/array.json?path=/climate/t", "/slice.json?path=/climate/t", "/explorer.js"):
        assert get(f"{site}{page}", Host=host)[0] == 400


@pytest.mark.parametrize(
    "host", ["data.example", "DATA.example:80", "data.example.", "127.0.0.1:9"]
)
def test_an_allowed_host_name_is_answered_to(guarded_site: str, host: str) -> None:
    headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}

    assert get(f"{guarded_site}/", **headers)[0] == 200


@pytest.mark.parametrize("page", ["/", "/data.json", "/slice.json?path=/climate/t", "/explorer.js"])
def test_nothing_is_read_without_the_token(guarded_site: str, page: str) -> None:
    status, headers, body = get(f"{guarded_site}{page}")

    assert status == 401
    assert headers["www-authenticate"].startswith("Basic ")
    assert TOKEN.encode() not in body
    for wrong in ("Bearer", "Bearer x", f"Bearer {TOKEN}x", "Basic %%%", f"Digest {TOKEN}", TOKEN):
        assert get(f"{guarded_site}{page}", Authorization=wrong)[0] == 401


def test_a_browser_sends_the_token_as_password(guarded_site: str) -> None:
    password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()

    assert get(f"{guarded_site}/", Authorization=f"Basic {password}")[0] == 200
    assert get(f"{guarded_site}/", Authorization=f"Basic {password}", Host="evil.example")[0] == 400


def test_a_token_is_shown_nowhere(repository: frazil.Repository) -> None:
    app = make_app(repository, "x", ["localhost"], TOKEN)

    assert TOKEN not in repr(app.user_middleware)
    assert TOKEN not in repr(vars(app))
    with pytest.raises(frazil.IcechunkError) as refused:
        Token(f"{TOKEN} and more")
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:8080", "localhost"), ("[::1]:8080", "::1"), ("[0:0:0:0:0:0:0:1]", "::1"),
        ("127.0.0.1", "127.0.0.1"), ("a b", None), ("a/b", None), ("a:b", None), ("::1", None),
    ],
)  # fmt: skip
def test_a_host_header_is_read_without_its_port(header: str, host: str | None) -> None:
    assert read_host(header) == host


@pytest.mark.parametrize(
    "name",
    ["*", "*.example.org", "", "http://data.example", "data.example:80", "a b", "a/b", "::g"],
)
def test_an_allowed_host_is_a_name_and_nothing_else(name: str) -> None:
    with pytest.raises(frazil.IcechunkError, match="invalid allowed host"):
        parse_host(name)


def test_only_loopback_needs_no_allowed_host() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "192.168.1.7", "data.example")))
    assert find_hosts("127.0.0.1", ()) == ["127.0.0.1", "localhost", "::1"]
    assert find_hosts("0.0.0.0", ("data.example",)) == ["data.example"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_other_machines_are_served_by_name_only(tmp_path: Path, host: str) -> None:
    place = tmp_path / "empty"
    make_frazil()("create", place)

    refused = make_frazil()("serve", place, "--host", host, "--token", TOKEN)

    assert refused.code == 2
    assert "--allowed-host" in refused.err
    assert TOKEN not in refused.err + refused.out


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    place = tmp_path / "empty"
    make_frazil()("create", place)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = make_frazil()("serve", place, "--port", taken.getsockname()[1])

    assert failed.code == 7
    assert "--port" in failed.err


def test_what_is_open_to_other_machines_is_warned_of(tmp_path: Path) -> None:
    place = tmp_path / "empty"
    make_frazil()("create", place)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "frazil.cli", "serve", str(place), "--host", "0.0.0.0",
        "--allowed-host", "data.example", "--port", str(port), "--json",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        warning = server.stderr.readline()
        for _ in range(600):
            if is_listening(port):
                break
            time.sleep(0.05)
        status = get(f"http://127.0.0.1:{port}/", Host="data.example")[0]
        foreign = get(f"http://127.0.0.1:{port}/")[0]
        server.send_signal(signal.SIGINT)
        server.wait(60)

    assert "open to other machines" in warning
    assert "--token" in warning
    assert (status, foreign, server.returncode) == (200, 400, 0)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
