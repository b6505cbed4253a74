"""Credentials by declared name: they are found when they are needed, and refreshed."""

import json
import os
import subprocess
from collections.abc import Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha1
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from frazil.credentials import (
    Credentials,
    S3StaticCredentials,
    s3_anonymous_credentials,
    s3_from_env_credentials,
    s3_refreshable_credentials,
)
from frazil.datasets.declaration import NamedCredentials, find_function
from frazil.errors import PermissionDeniedError, SetupError

_TIMEOUT = 30.0


def find_credential(declared: NamedCredentials) -> Any:
    """Return the credential that a name stands for, of the kind that its store takes."""
    match declared.kind:
        case "environment":
            return Credentials.S3(s3_from_env_credentials())
        case "anonymous":
            return Credentials.S3(s3_anonymous_credentials())
        case "aws_profile":
            return Credentials.S3(s3_refreshable_credentials(AwsProfile(declared.profile)))
        case "earthdata":
            return Credentials.S3(s3_refreshable_credentials(TemporaryS3(declared)))
        case "function":
            return find_function(str(declared.function))()
    return Credentials.HttpBearer(partial(find_token, declared))


def find_token(declared: NamedCredentials) -> str:
    """Return a bearer token from where it is declared; raises SetupError if there is none."""
    if declared.token_env is not None:
        token = os.environ.get(declared.token_env, "")
        where = f"the environment variable {declared.token_env}"
    elif declared.token_file is not None:
        path = Path(declared.token_file).expanduser()
        token = path.read_text(encoding="utf-8") if path.exists() else ""
        where = f"the file {declared.token_file}"
    else:
        command = declared.token_command or ()
        where = f"the command {command[0]}"
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SetupError(f"{where} gave no token: {type(error).__name__}") from None
        token = done.stdout
    if not token.strip():
        raise SetupError(f"{where} holds no token")
    return token.strip()


@dataclass(frozen=True, slots=True)
class AwsProfile:
    """Credentials of a profile of `~/.aws`: keys, a process, or single sign-on."""

    profile: str | None = None

    def __call__(self) -> S3StaticCredentials:
        """Return credentials that are valid now; raises SetupError if there are none."""
        name = self.profile or os.environ.get("AWS_PROFILE", "default")
        options = self._read(name)
        if "aws_access_key_id" in options:
            return S3StaticCredentials(
                options["aws_access_key_id"],
                options.get("aws_secret_access_key", ""),
                options.get("aws_session_token"),
                None,
            )
        if "credential_process" in options:
            return self._run_process(name, options["credential_process"])
        if "sso_account_id" in options:
            return self._sign_on(name, options)
        raise SetupError(
            f"the profile {name!r} has neither keys, nor credential_process, nor single sign-on"
        )

    def _read(self, name: str) -> dict[str, str]:
        home = Path.home() / ".aws"
        files = {
            "AWS_SHARED_CREDENTIALS_FILE": (home / "credentials", name),
            "AWS_CONFIG_FILE": (home / "config", name if name == "default" else f"profile {name}"),
        }
        found: dict[str, str] = {}
        for variable, (path, section) in files.items():
            parser = ConfigParser(interpolation=None)
            parser.read(os.environ.get(variable, path))
            if parser.has_section(section):
                found = {**dict(parser.items(section)), **found}
            session = f"sso-session {found.get('sso_session')}"
            if parser.has_section(session):
                found |= dict(parser.items(session))
        if not found:
            raise SetupError(f"there is no profile {name!r} in ~/.aws")
        return found

    def _run_process(self, name: str, command: str) -> S3StaticCredentials:
        try:
            done = subprocess.run(
                command, shell=True, capture_output=True, text=True, timeout=_TIMEOUT, check=True
            )
            found = json.loads(done.stdout)
            return S3StaticCredentials(
                found["AccessKeyId"],
                found["SecretAccessKey"],
                found.get("SessionToken"),
                _parse_time(found.get("Expiration")),
            )
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            raise SetupError(
                f"credential_process of the profile {name!r} failed: {type(error).__name__}"
            ) from None

    def _sign_on(self, name: str, options: Mapping[str, str]) -> S3StaticCredentials:
        key = options.get("sso_session") or options.get("sso_start_url", "")
        cache = Path.home() / ".aws/sso/cache" / f"{sha1(key.encode()).hexdigest()}.json"
        advice = f"sign on with `aws sso login --profile {name}`"
        try:
            saved = json.loads(cache.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise SetupError(f"the profile {name!r} has no saved sign-on: {advice}") from None
        expires = _parse_time(saved.get("expiresAt"))
        if expires is not None and expires <= datetime.now(UTC):
            raise PermissionDeniedError(f"the sign-on of the profile {name!r} expired: {advice}")
        region = options.get("sso_region", saved.get("region", ""))
        base = os.environ.get("AWS_ENDPOINT_URL_SSO", f"https://portal.sso.{region}.amazonaws.com")
        query = urlencode(
            {"account_id": options["sso_account_id"], "role_name": options.get("sso_role_name", "")}
        )
        headers = {"x-amz-sso_bearer_token": str(saved.get("accessToken", ""))}
        body = _fetch(f"{base}/federation/credentials?{query}", headers)
        found = body.get("roleCredentials", {})
        expires = datetime.fromtimestamp(found.get("expiration", 0) / 1000, UTC)
        return S3StaticCredentials(
            found["accessKeyId"], found["secretAccessKey"], found.get("sessionToken"), expires
        )


@dataclass(frozen=True, slots=True)
class TemporaryS3:
    """Temporary S3 credentials that an archive gives for a token or a login, as Earthdata does."""

    declared: NamedCredentials

    def __call__(self) -> S3StaticCredentials:
        """Return fresh credentials; raises PermissionDeniedError if the archive refuses."""
        declared = self.declared
        endpoint = str(declared.endpoint)
        headers = {}
        if declared.token_env or declared.token_file or declared.token_command:
            headers["Authorization"] = f"Bearer {find_token(declared)}"
        else:
            headers["Authorization"] = _find_login(endpoint)
        found = _fetch(endpoint, headers)
        try:
            return S3StaticCredentials(
                found["accessKeyId"],
                found["secretAccessKey"],
                found.get("sessionToken"),
                _parse_time(found.get("expiration")) or datetime.now(UTC) + timedelta(minutes=50),
            )
        except KeyError:
            raise PermissionDeniedError(f"{endpoint} gave no S3 credentials") from None


def _find_login(endpoint: str) -> str:
    """Return the login that `~/.netrc` has for a host, as a header."""
    import base64  # noqa: PLC0415 (one of three kinds needs it)

    host = urlsplit(endpoint).hostname or ""
    try:
        found = netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, NetrcParseError):
        found = None
    if found is None:
        raise SetupError(f"~/.netrc has no login for {host}, and no token is declared")
    return "Basic " + base64.b64encode(f"{found[0]}:{found[2]}".encode()).decode()


def _fetch(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    where = urlsplit(url).netloc
    try:
        with urlopen(Request(url, headers=dict(headers)), timeout=_TIMEOUT) as response:
            body = json.loads(response.read())
    except HTTPError as error:
        raise PermissionDeniedError(f"{where} answered {error.code} to the login") from None
    except (URLError, OSError, ValueError) as error:
        raise SetupError(f"{where} gave no credentials: {type(error).__name__}") from None
    return body if isinstance(body, dict) else {}


def _parse_time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text.replace("UTC", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
