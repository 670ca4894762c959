"""One golden journal: how it is written to a file, read back, and replayed through the core alone."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from perdure.core import stdlib
from perdure.core.entry import Entry, Kind, Note
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts
from perdure.core.payload import pack, unpack
from perdure.registry import definitions

FOLDER = Path(__file__).parent / "journals"
HEX = ("digest", "seed")
CAP = 1 << 30


@dataclass
class Golden:
    """A recorded run, and how it stood at its end, or where it was when the recording stopped."""

    program: str
    perdure: str
    python: str
    format: int
    released: bool  # whether the code had the change that some workflows guard
    id: str
    number: int
    workflow: str
    identity: bytes
    tags: list[str]
    input: bytes
    entries: list[Entry]
    asked: list[list[str]] = field(default_factory=list)  # per entry: what the code asked for when it had been fed
    open: dict[str, list[str]] = field(default_factory=dict)
    outcome: tuple[str, bytes] | None = None

    # ── replaying ───────────────────────────────────────────────────────────────────────────────────────────────────

    def replay(self, length=None):
        """Feed the first `length` entries (all by default) to a new execution. What each entry made the code ask for is in
        `.asked`. The execution must be dropped."""
        entries = self.entries[:length]
        facts = RunFacts(
            id=self.id, number=self.number, workflow=self.workflow, input=self.input, identity=self.identity, tags=tuple(self.tags),
            link=lambda promise: f"perdure:{promise}",
        )  # fmt: skip
        stdlib.install()  # as every app does: the wait_for and as_completed that replay on every Python
        execution = Execution(definitions.workflow(self.workflow), facts)
        execution.patches_recorded = frozenset(entry.key for entry in entries if entry.kind == Kind.PATCHED)
        asked, timers = [], set()
        try:
            for number, entry in enumerate(entries, 1):
                execution.at_end = number == len(entries)
                if number == 1:
                    execution.begin(entry)
                else:
                    execution.feed(entry)
                armed = [timer for key, timer in execution.timers.items() if key not in timers]
                armed.sort(key=lambda timer: timer.number)
                timers.update(timer.key for timer in armed)
                issued = [f"{each.kind} {each.key}" for each in execution.take()]
                asked.append(issued + [f"timer {each.key} at {each.deadline}" for each in armed])
        except BaseException:
            execution.drop()
            raise
        return execution, asked


def state_of(execution):
    """What is open: by kind, in the order in which it was asked for."""
    return {
        "operations": [f"{each.kind} {each.key}" for each in dict.fromkeys(execution.operations.values())],
        "timers": [
            f"{each.key} at {each.deadline}" for each in sorted(execution.timers.values(), key=lambda timer: timer.number)
        ],
        "waits": [f"{each.kind} {each.key} {each.id}" for each in execution.waits.values() if not each.done],
        "receivers": [" or ".join(sorted(names)) for names, _ in execution.receivers],
        "mail": [f"{each.name} {each.data.decode()}" for each in execution.mail],
        "tasks": [task.get_name() for task in execution.loop.unfinished()] if execution.ended is None else [],
    }


def comparable(status, data):
    """An outcome without the texts of tracebacks: these name lines of code, and lines of code move."""

    def stripped(value):
        if isinstance(value, dict):
            return {name: stripped(each) for name, each in value.items() if not (name == "traceback" and isinstance(each, str))}
        return [stripped(each) for each in value] if isinstance(value, list) else value

    return status, json.dumps(stripped(json.loads(data)))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _entry_to_json(entry, asked):
    fields = {"n": entry.sequence, "kind": entry.kind, "key": entry.key, "time": entry.time}
    if entry.value is not None:
        fields["value"] = msgspec.Raw(entry.value)
    if entry.failed:
        fields["failed"] = True
    if entry.note is not None:
        note = {name: value for name, value in msgspec.structs.asdict(entry.note).items() if value}
        for name in HEX:
            if name in note:
                note[name] = note[name].hex()
        if "arguments" in note:
            note["arguments"] = msgspec.Raw(unpack(note["arguments"], lambda _: {}))
        if note:
            fields["note"] = note
    if asked:
        fields["asks"] = asked
    return msgspec.json.encode(fields).decode()


def _entry_from_json(raw):
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    note = msgspec.json.decode(fields["note"], type=dict[str, msgspec.Raw]) if "note" in fields else None
    if note is not None:
        plain = {name: msgspec.json.decode(value) for name, value in note.items() if name != "arguments"}
        for name in HEX:
            if name in plain:
                plain[name] = bytes.fromhex(plain[name])
        if "arguments" in note:
            plain["arguments"] = pack(bytes(note["arguments"]), cap=CAP)[0]
        note = Note(**plain)
    entry = Entry(
        msgspec.json.decode(fields["n"]),
        msgspec.json.decode(fields["kind"]),
        msgspec.json.decode(fields["key"]),
        msgspec.json.decode(fields["time"]),
        bytes(fields["value"]) if "value" in fields else None,
        "failed" in fields,
        note,
    )
    return entry, msgspec.json.decode(fields["asks"]) if "asks" in fields else []


def write(golden, path):
    """Write a journal to a file: one line per entry, so that changes of one can be seen."""
    head = {
        "program": golden.program,
        "perdure": golden.perdure,
        "python": golden.python,
        "format": golden.format,
        "released": golden.released,
        "id": golden.id,
        "number": golden.number,
        "workflow": golden.workflow,
        "identity": golden.identity.hex(),
        "tags": golden.tags,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()]
    lines.append(f'"input": {golden.input.decode()}')
    entries = zip(golden.entries, golden.asked, strict=True)
    listed = ",\n    ".join(_entry_to_json(entry, asked) for entry, asked in entries)
    lines.append(f'"entries": [\n    {listed}\n  ]')
    if golden.outcome is not None:
        status, data = golden.outcome
        lines.append(f'"outcome": {{"status": {json.dumps(status)}, "value": {data.decode()}}}')
    lines.append(f'"open": {json.dumps({name: value for name, value in golden.open.items() if value}, ensure_ascii=False)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n  " + ",\n  ".join(lines) + "\n}\n", encoding="utf-8")


def read(path):
    """Read a journal from its file. Values keep their exact bytes."""
    fields = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    entries = [_entry_from_json(raw) for raw in msgspec.json.decode(fields["entries"], type=list[msgspec.Raw])]
    outcome = msgspec.json.decode(fields["outcome"], type=dict[str, msgspec.Raw]) if "outcome" in fields else None
    names = ("program", "perdure", "python", "format", "released", "id", "number", "workflow", "tags", "open")
    plain = {name: msgspec.json.decode(fields[name]) for name in names}
    return Golden(
        **plain,
        identity=bytes.fromhex(msgspec.json.decode(fields["identity"])),
        input=bytes(fields["input"]),
        entries=[entry for entry, _ in entries],
        asked=[asked for _, asked in entries],
        outcome=None if outcome is None else (msgspec.json.decode(outcome["status"]), bytes(outcome["value"])),
    )
