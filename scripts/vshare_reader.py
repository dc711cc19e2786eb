#!/usr/bin/env python3
"""Reads what processes under vshare publish. Needs the standard library alone; can be imported.

    python3 scripts/vshare_reader.py              # all processes, one line each
    python3 scripts/vshare_reader.py PID          # one: its counters and the events that its ring still holds
    python3 scripts/vshare_reader.py PID --json

    import vshare_reader
    for found in vshare_reader.find():
        with vshare_reader.Segment(found.path) as segment:
            print(segment.pid, segment.alive(), segment.values()["live_bytes"])

A segment may hold anything: whatever cannot be read raises SegmentError with a sentence that says why. The file is read and not
mapped, so one that shrinks meanwhile is an error, too, and no signal. The byte map is in src/vshare-shm/src/layout.rs.
"""

import argparse
import collections
import json
import os
import re
import stat
import struct
import sys

DIRECTORY = "/dev/shm"
SIZE = 0x10000
MAGIC = 0x56534852
MAJOR, MINOR = 1, 0
COUNTERS = 96
SLOTS = 960

STATES = {0: "starting", 1: "live", 2: "exited"}
# Kind: its name, and the names of its words.
KINDS = {
    1: ("allocated", ("address", "bytes", "class", "stream")),
    2: ("freed", ("address", "bytes", "class", "stream")),
    3: ("refused", ("bytes", "cause", "live_bytes", "limit_bytes")),
    4: ("promoted", ("address", "bytes", "nanoseconds", "device")),
    5: ("evicted", ("address", "bytes", "nanoseconds", "device")),
    6: ("stalled", ("nanoseconds", "bytes", "launch", "device")),
    7: ("failed", None),
    8: ("context lost", ("context", "bytes", "device")),
    9: ("sampled", ("live_bytes", "resident_bytes", "host_bytes", "budget_bytes")),
}
CLASSES = {0: "managed", 1: "device"}
CAUSES = {0: "limit", 1: "driver", 2: "host"}

Found = collections.namedtuple("Found", "path uid pid start_time")
Counter = collections.namedtuple("Counter", "name unit kind help value")
Device = collections.namedtuple("Device", "ordinal name uuid")
Event = collections.namedtuple("Event", "ticket time_ns kind name fields")


class SegmentError(Exception):
    """Why something cannot be read as a segment, or which one is meant cannot be told."""


def find(directory=DIRECTORY):
    """The segments in `directory`, of all users, as Found, by uid, pid and start. None if there is no such directory."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SegmentError(f"cannot list {directory}: {error.strerror}") from None
    matches = (re.fullmatch(r"vshare-([0-9]+)-([0-9]+)-([0-9]+)", name) for name in names)
    found = [Found(os.path.join(directory, m[0]), int(m[1]), int(m[2]), int(m[3])) for m in matches if m]
    return sorted(found, key=lambda f: f[1:])


def open_pid(pid, directory=DIRECTORY):
    """The segment of process `pid`: the live one's, else the latest."""
    segments, failure = [], None
    for found in find(directory):
        if found.pid == pid:
            try:
                segments.append(Segment(found.path))
            except SegmentError as error:
                failure = error
    if not segments:
        raise failure or SegmentError(f"process {pid} has no segment in {directory}: it has not used CUDA under vshare")
    segments.sort(key=lambda s: (s.alive() is True, s.created_ns))
    for segment in segments[:-1]:
        segment.close()
    return segments[-1]


class Segment:
    """A segment's file. Its properties tell what is written once, its methods what changes."""

    def __init__(self, path):
        self.path = path = os.fspath(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags)
        except (OSError, ValueError) as error:
            raise SegmentError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _check(self):
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise SegmentError(f"cannot read {self.path}: not a regular file")
        if os.geteuid() not in (0, found.st_uid):
            raise SegmentError(f"cannot read {self.path}: belongs to user {found.st_uid}; only that user and root may read it")
        if found.st_size < SIZE:
            raise SegmentError(f"cannot read {self.path}: {found.st_size} bytes long, a segment has {SIZE}")
        word = self._word(0)
        if word >> 32 != MAGIC:
            raise SegmentError(f"cannot read {self.path}: not a vshare segment")
        if (major := word >> 16 & 0xFFFF) != MAJOR:
            raise SegmentError(
                f"cannot read {self.path}: written in format {major}.{word & 0xFFFF}, and this reader knows "
                f"{MAJOR}.{MINOR}: use the reader that came with the library"
            )

    def _bytes(self, at, length):
        try:
            read = os.pread(self._file, length, at)
        except OSError as error:
            raise SegmentError(f"cannot read {self.path}: {error.strerror}") from None
        if len(read) < length:
            raise SegmentError(f"cannot read {self.path}: it has become shorter than a segment")
        return read

    def _word(self, at):
        return struct.unpack("=Q", self._bytes(at, 8))[0]

    def _text(self, at, room):
        length = self._word(at)
        return self._bytes(at + 8, room)[: min(length, room)]

    @property
    def pid(self):
        """The owner's process id, in its own namespace."""
        return self._word(0x18)

    @property
    def start_time(self):
        """The owner's start, in clock ticks since boot."""
        return self._word(0x20)

    @property
    def uid(self):
        """The owner's effective user."""
        return self._word(0x28)

    @property
    def run(self):
        """The VSHARE_RUN it was started under; 0: none."""
        return self._word(0x38)

    @property
    def created_ns(self):
        """When the segment was made, in nanoseconds since 1970; times of events count from here."""
        return self._word(0x40)

    @property
    def driver_version(self):
        """As cuDriverGetVersion gives it; 0: not known yet."""
        return self._word(0x48)

    @property
    def library(self):
        """The library's version."""
        return self._text(0x100, 24).decode(errors="replace")

    @property
    def policy(self):
        """The policy's name."""
        return self._text(0x120, 24).decode(errors="replace")

    @property
    def command(self):
        """The start of the owner's command line, blank between arguments."""
        return self._text(0x200, 200).rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")

    def device(self):
        """The GPU, once the owner has said which; else None."""
        word = self._word(0x1D0)
        if word == 0:
            return None
        u = self._bytes(0x1C0, 16).hex()
        uuid = f"GPU-{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}"
        return Device(word - 1, self._text(0x140, 120).decode(errors="replace"), uuid)

    def alive(self):
        """Whether the owner lives: True, False, or None where that cannot be told (another pid namespace)."""
        theirs = self._word(0x30)
        try:
            ours = os.stat("/proc/self/ns/pid").st_ino
        except OSError:
            ours = 0
        if theirs and ours and theirs != ours:
            return None
        status = _process(self.pid)
        if status is None:
            return False if _process("self") else None
        state, threads, start_time = status
        return start_time == self.start_time and not (state in "ZXx" and threads <= 1)

    def state(self):
        """"live", "starting", "exiting", "exited", "dead" or "unknown": by what the owner says and by what we see."""
        said, alive = STATES.get(self._word(0x10)), self.alive()
        if alive is None:
            return "unknown"
        if alive:
            return {"starting": "starting", "exited": "exiting"}.get(said, "live")
        return "exited" if said == "exited" else "dead"

    def counters(self):
        """All counters, in the segment's order."""
        used = min(self._word(0x50), COUNTERS)
        values = struct.unpack(f"={COUNTERS}Q", self._bytes(0x400, 8 * COUNTERS))
        rows = self._bytes(0x800, 160 * COUNTERS)
        counters = []
        for i in range(used):
            name, unit, kind, text = struct.unpack_from("=32s16sQ104s", rows, 160 * i)
            gauge = kind == 1
            # A gauge is two's complement: below zero, for the moment between two threads, is zero.
            value = 0 if gauge and values[i] >> 63 else values[i]
            counters.append(Counter(_padded(name), _padded(unit), "gauge" if gauge else "counter", _padded(text), value))
        return counters

    def values(self):
        """The counters' values by name."""
        return {counter.name: counter.value for counter in self.counters()}

    def events(self, after=-1):
        """The events still in the ring whose ticket is above `after`, oldest first. A gap in the tickets is what was lost."""
        head, before = self._word(0x80), self._bytes(0x4400, 48 * SLOTS)
        # A record is whole if nothing of its slot has changed between two looks.
        again = self._bytes(0x4400, 48 * SLOTS)
        events = []
        for ticket in range(max(after + 1, head - SLOTS, 0), head):
            at = 48 * (ticket % SLOTS)
            slot = before[at : at + 48]
            stamp, first, *words = struct.unpack("=6Q", slot)
            # As the writer counts: in 64 bits.
            if stamp == (2 * ticket + 2) % (1 << 64) and again[at : at + 48] == slot:
                events.append(_event(ticket, first, words))
        return events

    def summary(self):
        """Everything but the events, as JSON takes it: what `vshare stats --json` prints."""
        device = self.device()
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "uid": self.uid,
            "state": self.state(),
            "command": self.command,
            "created_ns": self.created_ns,
            "library": self.library,
            "policy": self.policy,
            "driver_version": self.driver_version,
            "device": device and device._asdict(),
            "counters": self.values(),
        }


def _process(pid):
    """State, threads and start of a process, from /proc; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name is in parentheses and may hold anything: count from the last one.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[17]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _padded(text):
    return text.split(b"\0", 1)[0].decode(errors="replace")


def _event(ticket, first, words):
    kind, time_ns = first >> 56, first & ((1 << 56) - 1)
    name, names = KINDS.get(kind, ("unknown", ()))
    if kind == 7:
        call = "cu" + _padded(struct.pack("=2Q", *words[2:]))
        fields = {"call": call, "code": words[0] >> 32, "device": words[0] & 0xFFFFFFFF, "bytes": words[1]}
    elif not names:
        fields = {"kind": kind, "words": words}
    else:
        fields = dict(zip(names, words))
        for field, meanings in (("class", CLASSES), ("cause", CAUSES)):
            if field in fields:
                fields[field] = meanings.get(fields[field], fields[field])
    return Event(ticket, time_ns, kind, name, fields)


def _human(value):
    for name, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{value // factor}.{value % factor * 10 // factor} {name}"
    return f"{value} B"


def _printable(text):
    """What a terminal may be shown: texts come from outside."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _event_json(event):
    return {"ticket": event.ticket, "time_ns": event.time_ns, "event": event.name, **event.fields}


def _list(directory, as_json):
    rows, unreadable = [], 0
    for found in find(directory):
        try:
            with Segment(found.path) as segment:
                rows.append(segment.summary())
        except SegmentError as error:
            unreadable += 1
            print(f"vshare_reader: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif rows:
        print(f"{'PID':>8}  {'STATE':8}  {'LIVE':>10}  {'RESIDENT':>10}  {'BUDGET':>10}  COMMAND")
        for row in rows:
            values = [_human(row["counters"].get(name, 0)) for name in ("live_bytes", "resident_bytes", "budget_bytes")]
            print(f"{row['pid']:>8}  {row['state']:8}  {values[0]:>10}  {values[1]:>10}  {values[2]:>10}  {_printable(row['command'])}")
    elif not unreadable:
        print(f"vshare_reader: no process has run under vshare (nothing in {directory})", file=sys.stderr)
    return 1 if unreadable and not rows else 0


def _one(segment, as_json):
    summary, events = segment.summary(), [_event_json(event) for event in segment.events()]
    if as_json:
        print(json.dumps({**summary, "events": events}, indent=2))
        return
    for name, value in summary.items():
        if name not in ("counters", "device"):
            print(f"{name:15} {_printable(str(value))}")
    if summary["device"]:
        print(f"{'device':15} {_printable(' '.join(str(part) for part in summary['device'].values()))}")
    print()
    for counter in segment.counters():
        shown = _human(counter.value) if counter.unit == "bytes" else f"{counter.value} {_printable(counter.unit)}"
        print(f"{_printable(counter.name):26} {shown:>22}  {_printable(counter.help)}")
    print()
    for event in events:
        fields = " ".join(f"{name}={value}" for name, value in event.items() if name not in ("ticket", "time_ns", "event"))
        print(f"{event['time_ns'] / 1e9:14.6f}s  {event['event']:12} {_printable(fields)}")


def main(arguments=None):
    """The command line; returns the exit code: 0 good, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(description="Reads what processes under vshare publish.")
    parser.add_argument("which", nargs="?", metavar="PID|PATH", help="a process, or a segment's file [default: list all]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--directory", default=DIRECTORY, metavar="DIR", help="where segments lie [default: %(default)s]")
    options = parser.parse_args(arguments)
    try:
        if options.which is None:
            if not os.path.isdir(options.directory):
                raise SegmentError(f"no directory {options.directory}: --directory names the one in which segments lie")
            return _list(options.directory, options.json)
        if re.fullmatch("[0-9]{1,10}", options.which):
            segment = open_pid(int(options.which), options.directory)
        else:
            segment = Segment(options.which)
        with segment:
            _one(segment, options.json)
        return 0
    except SegmentError as error:
        print(f"vshare_reader: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    try:
        sys.stdout.reconfigure(errors="backslashreplace")
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough. The interpreter would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)
