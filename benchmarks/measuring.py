"""What the workloads share: a fresh store, clocks, percentiles, and what lies in the store afterwards."""

import asyncio
import contextlib
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import apsw

import perdure
from perdure import App


@dataclass
class Options:
    """What was asked for on the command line. 0 means the workload's own default."""

    workload: str
    backend: str = "sqlite"
    dsn: str = ""
    n: int = 0
    c: int = 64
    steps: int = 0
    workers: int = 2
    seconds: float = 60.0
    lead: float = 0.0
    usd_per_hour: float = 0.10
    folder: Path = field(default_factory=Path)

    def with_defaults(self, n=1, steps=1):
        """Fill in the workload's own defaults."""
        self.n = self.n or n
        self.steps = self.steps or steps
        return self

    @property
    def url(self):
        """The store of this benchmark."""
        return f"sqlite:///{self.path}"

    @property
    def path(self):
        """Its file."""
        return self.folder / "benchmark.db"


class Meter:
    """Wall and CPU time of a stretch, all threads of the process together."""

    wall = cpu = 0.0

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error):
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def facts(self, steps=0):
        """As every line has them."""
        line = {"wall_s": round(self.wall, 4)}
        if steps:
            line["cpu_us_per_step"] = round(self.cpu / steps * 1e6, 1)
        return line


def head(options):
    """What every line begins with."""
    return {
        "workload": options.workload,
        "backend": options.backend,
        "n": options.n,
        "c": options.c,
        "k": options.steps,
        "python": platform.python_version(),
        "version": perdure.__version__,
        "durability": "WAL, synchronous=FULL",
        "load": round(os.getloadavg()[0], 2),
    }


def percentile(values, share):
    """The value below which this share of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def in_ms(seconds):
    """Seconds as milliseconds."""
    return round(seconds * 1000, 4)


def latencies(seconds, prefix=""):
    """The usual two percentiles, in milliseconds."""
    return {f"{prefix}p50_ms": in_ms(percentile(seconds, 0.5)), f"{prefix}p99_ms": in_ms(percentile(seconds, 0.99))}


@contextlib.contextmanager
def fresh_folder():
    """A folder for the store, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="perdure-benchmark-") as folder:
        yield Path(folder)


def committer_of(app):
    """The committer of an open app."""
    return app.gate.process.committer


async def warm_up(app, call):
    """Run something once, so that what is compiled and opened at first use is not measured."""
    await app.run(call)


async def settle(app):
    """Wait until the worker holds no run any more."""
    while app.worker.drivers or not committer_of(app).idle:
        await asyncio.sleep(0.002)


def tell(text):
    """Progress, for people: never on standard output."""
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()


def commit_times(folder, count=300):
    """Seconds of bare commits on the same disk: BEGIN IMMEDIATE, one row, COMMIT, with the pragmas of the store."""
    path = str(folder / "bare.db")
    connection = apsw.Connection(path)
    pragmas = ("page_size = 8192", "journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 2000")
    connection.execute("".join(f"PRAGMA {each};" for each in pragmas)).fetchall()
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, value BLOB)")
    value, seconds = os.urandom(1024), []
    for _ in range(count):
        begun = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (value) VALUES (?)", (value,))
        connection.execute("COMMIT")
        seconds.append(time.perf_counter() - begun)
    connection.close()
    return seconds


def stored_facts(path):
    """Rows and bytes of a store that nobody has open: its -wal file is written back first."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = {table: connection.execute(f'SELECT count(*) FROM "{table}"').fetchall()[0][0] for table in tables}
    size = connection.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").fetchall()[0][0]
    connection.close()
    return {"rows": rows, "bytes": size}


async def empty_size(options):
    """The bytes of a store in which nothing has happened yet."""
    path = options.folder / "empty.db"
    async with App(f"sqlite:///{path}"):
        pass
    return stored_facts(path)["bytes"]


def resident_kib():
    """The memory that this process holds, in KiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * (os.sysconf("SC_PAGE_SIZE") // 1024)
