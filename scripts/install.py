"""Runs `pip install` quietly: one line while it works, its whole output only if it fails.

    python scripts/install.py "what it is, in words" [pip's arguments]

Needs nothing beyond the standard library and the pip of the interpreter that runs it.
"""

import re
import subprocess
import sys
import threading
import time

PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
NOTABLE = re.compile(r"\s*(?:Collecting|Downloading|Building|Preparing|Installing|Obtaining)\b.*")


class Pip:
    """One pip process and the newest thing it said."""

    def __init__(self, arguments):
        command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "raw"]
        self.process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines = []
        self.doing = "starting pip"
        self.share = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if match := PROGRESS.search(line):
                done, total = int(match[1]), int(match[2])
                self.share = f" {100 * done // total} %" if total else ""
                continue
            self.lines.append(line)
            if NOTABLE.match(line):
                self.doing, self.share = shorten(line), ""


def shorten(line):
    words = line.split()
    subject = words[1].rsplit("/", 1)[-1] if len(words) > 1 else ""
    if words[0] == "Installing":
        return "installing"
    return f"{words[0].lower()} {subject}"[:60]


def main():
    title, *arguments = sys.argv[1:]
    live, began, spoke = sys.stdout.isatty(), time.monotonic(), time.monotonic()
    print(f"· installing {title}", end="" if live else "\n", flush=True)
    pip = Pip(arguments)
    while pip.process.poll() is None:
        time.sleep(0.2)
        now = time.monotonic()
        status = f"{now - began:3.0f} s  {pip.doing}{pip.share}"
        if live:
            print(f"\r\033[K· installing {title}: {status}", end="", flush=True)
        elif now - spoke >= 10:
            spoke = now
            print(f"  {status}", flush=True)
    pip.reader.join(5)
    took = time.monotonic() - began
    if pip.process.returncode:
        print("\n" + "".join(pip.lines))
        print(f"error: pip could not install {title} (exit {pip.process.returncode}, {took:.0f} s); its output is above")
    else:
        print(("\r\033[K" if live else "") + f"· installed {title} ({took:.0f} s)")
    return pip.process.returncode


if __name__ == "__main__":
    sys.exit(main())
