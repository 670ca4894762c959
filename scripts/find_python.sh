# Prints the interpreter to build .venv with: the one given, else the newest tested one, else any that is new enough.
# It is run to find out, because a name on PATH proves nothing (version managers put shims there).

usable() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "$1" ]; then
    usable "$1" && echo "$1" && exit 0
    echo "error: $1 is not a Python 3.11 or newer with the venv module" >&2
    exit 1
fi
for name in python3.13 python3.12 python3.11 python3 python3.14 python; do
    usable "$name" && echo "$name" && exit 0
done
{
    echo "error: no Python 3.11 or newer with the venv module was found on PATH"
    echo "  → install one (on Debian and Ubuntu: apt-get install python3 python3-venv),"
    echo "    or name one: make test PYTHON=/path/to/python3.12"
} >&2
exit 1
