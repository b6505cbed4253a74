"""What a run tells others: hooks after it, and log lines as JSON."""

import json
import logging
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from frazil.datasets.declaration import Declaration, Notify
from frazil.display import to_plain
from frazil.errors import SetupError
from frazil.storage.clients import redact

log = logging.getLogger("frazil.datasets")
_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Format a log record as one line of JSON, with the fields that were given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what looks like a secret is masked."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at, "level": record.levelname.lower(), "event": record.getMessage()
        }  # fmt: skip
        line |= {name: each for name, each in vars(record).items() if name not in _OF_RECORDS}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return redact(json.dumps(to_plain(line), ensure_ascii=False, default=str))


def log_as_json() -> None:
    """Write the log of Frazil to standard error, one JSON object a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("frazil")
    logger.handlers[:] = [
        each for each in logger.handlers if type(each.formatter) is not JsonFormatter
    ]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def notify(declaration: Declaration, outcome: str, report: Any) -> Iterator[str]:
    """Call the hooks for an outcome, and yield what became of each; a failing hook fails no run."""
    for hook in declaration.notify:
        if outcome not in hook.on:
            continue
        payload = {
            "dataset": declaration.repository,
            "outcome": outcome,
            "report": to_plain(report),
        }
        yield _call(hook, json.dumps(payload, ensure_ascii=False, default=str), outcome)


def _call(hook: Notify, payload: str, outcome: str) -> str:
    name = hook.command[0] if hook.command else (hook.url_env or "webhook")
    secrets: list[str] = []
    problem = ""
    for attempt in range(hook.tries):
        if attempt:
            time.sleep(min(0.2 * 2**attempt, 30.0))
        try:
            secrets = [*_find_secrets(hook)]
            _send(hook, payload, outcome)
        except (OSError, SetupError, subprocess.SubprocessError) as error:
            problem = redact(_describe(error), secrets)
            log.warning("hook failed", extra={"hook": name, "attempt": attempt + 1, "why": problem})
            if isinstance(error, SetupError) or not _is_transient(error):
                return f"{name}: {problem}"
            continue
        log.info("hook called", extra={"hook": name, "outcome": outcome})
        return f"{name}: done"
    return f"{name}: {problem} ({hook.tries} attempts)"


def _is_transient(error: Exception) -> bool:
    return not isinstance(error, HTTPError) or error.code >= 500 or error.code in (408, 429)


def _describe(error: Exception) -> str:
    match error:
        case HTTPError():
            return f"the server answered {error.code}"
        case URLError():
            return f"the server can't be reached: {error.reason}"
        case subprocess.CalledProcessError():
            return f"it exited with {error.returncode}"
        case subprocess.TimeoutExpired():
            return f"it took longer than {error.timeout:g} s"
    return str(error)


def _find_secrets(hook: Notify) -> Iterator[str]:
    for name in (hook.url_env, *hook.headers_env.values()):
        if name is not None:
            if name not in os.environ:
                raise SetupError(f"the environment variable {name} of a hook is not set")
            yield os.environ[name]


def _send(hook: Notify, payload: str, outcome: str) -> None:
    seconds = hook.timeout.delta.total_seconds()
    if hook.command is not None:
        subprocess.run(
            hook.command,
            input=payload,
            text=True,
            check=True,
            timeout=seconds,
            env={**os.environ, "FRAZIL_OUTCOME": outcome},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return
    url = hook.url if hook.url is not None else os.environ[str(hook.url_env)]
    headers = {name: os.environ[variable] for name, variable in hook.headers_env.items()}
    if not url.startswith(("http://", "https://")):
        raise SetupError("the address of a hook must begin with http:// or https://")
    request = Request(
        url, payload.encode(), {"Content-Type": "application/json", **headers}, method="POST"
    )
    with urlopen(request, timeout=seconds) as response:
        response.read(1)
