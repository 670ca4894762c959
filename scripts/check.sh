# Everything that looks at the code without running it. All checks run, so that one look shows all there is to do.

bin=$(dirname "${PY:-.venv/bin/python}")
failed=""

run() {
    title=$1
    shift
    if output=$("$@" 2>&1); then
        echo "✓ $title"
    else
        echo "✗ $title"
        echo "$output" | sed 's/^/    /'
        failed="$failed $title,"
    fi
}

run "format" "$bin/ruff" format --check --diff --quiet .
run "lint" "$bin/ruff" check --quiet --output-format concise .
run "types by mypy" "$bin/mypy" --no-error-summary
run "types by pyright" "$bin/python" -m pyright --pythonpath "$bin/python"
run "layers" "$bin/lint-imports" --no-cache
run "sizes" "$bin/python" scripts/size_report.py
"$bin/python" scripts/size_report.py --summary

if [ -n "$failed" ]; then
    echo "failed:${failed%,}"
    exit 1
fi
