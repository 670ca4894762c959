"""Where an app keeps its runs: the URL, from the argument, the environment or the default, and the store that it names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

from perdure.core.errors import ConfigurationError

if TYPE_CHECKING:
    from perdure.stores.base import Store

__all__ = ["DEFAULT_URL", "resolve", "store_for"]

DEFAULT_URL = "sqlite:///perdure.db"


def resolve(url: str | None) -> str:
    """The URL to use: the argument, else `$PERDURE_URL`, else `sqlite:///perdure.db` in the current folder."""
    return url or os.environ.get("PERDURE_URL") or DEFAULT_URL


def sqlite_path(url: str) -> str:
    """The file of a `sqlite://` URL: three slashes for a relative path, four for an absolute one, or `sqlite://` for memory.

    >>> sqlite_path("sqlite:///agents.db"), sqlite_path("sqlite:////var/lib/agents.db"), sqlite_path("sqlite:///:memory:")
    ('agents.db', '/var/lib/agents.db', ':memory:')
    """
    rest = unquote(url.removeprefix("sqlite://").partition("?")[0])
    if rest in ("", "/", "/:memory:", ":memory:"):
        return ":memory:"
    if not rest.startswith("/"):
        raise ConfigurationError(
            f"{url!r} names a host, but SQLite is a file", hint="write sqlite:///relative.db or sqlite:////absolute.db"
        )
    return rest[1:]


def store_for(url: str) -> Store:
    """The store of a URL. Makes no connection.

    Raises `ConfigurationError` for a scheme that nobody serves.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from perdure.stores.sqlite import SqliteStore  # imported when used: `import perdure` stays quick

        return SqliteStore(sqlite_path(url))
    raise ConfigurationError(
        f"no store serves {scheme!r} URLs", hint="use sqlite:///path/to/file.db (three slashes: relative, four: absolute)"
    )
