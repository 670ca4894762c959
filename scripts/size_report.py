"""Reports how large modules and functions are and which public ones have no docstring.

    python scripts/size_report.py [--summary] [folder ...]

Over the soft limits (400 lines a module, 60 a function): look for the noun that is missing. Over the hard ones (500, 90)
it fails. A function's docstring is not counted: nobody should save on explaining.
"""

import ast
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

MODULE_SOFT, MODULE_HARD = 400, 500
FUNCTION_SOFT, FUNCTION_HARD = 60, 90
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Sized(NamedTuple):
    lines: int
    where: str


class Report:
    def __init__(self):
        self.modules = []
        self.functions = []
        self.undocumented = []
        self.documented = 0

    def add(self, path):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
        self.modules.append(Sized(text.count("\n"), str(path)))
        self.docstring(tree, str(path), public=True)
        self.visit(tree, path, "", public=True)

    def visit(self, parent, path, prefix, *, public):
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, Definition):
                self.visit(node, path, prefix, public=public)
                continue
            name, where = f"{prefix}{node.name}", f"{path}:{node.lineno} {prefix}{node.name}"
            seen = public and not node.name.startswith("_")
            self.docstring(node, where, public=seen and not exempt(node))
            if isinstance(node, ast.ClassDef):
                self.visit(node, path, f"{name}.", public=seen)
            else:
                self.functions.append(Sized(length(node), where))
                self.visit(node, path, f"{name}.", public=False)

    def docstring(self, node, where, *, public):
        if public and ast.get_docstring(node, clean=False) is None and not empty(node):
            self.undocumented.append(where)
        elif public:
            self.documented += 1


def exempt(node):
    """Overloads and overrides are documented where they are implemented and declared."""
    names = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in node.decorator_list}
    return bool(names & {"overload", "override", "setter", "deleter"})


def empty(node):
    return isinstance(node, ast.Module) and not node.body


def length(node):
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def summary(report):
    sizes = sorted(module.lines for module in report.modules)
    p90 = sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]
    largest, longest = max(report.modules), max(report.functions, default=Sized(0, "none"))
    total = report.documented + len(report.undocumented)
    return (
        f"  {len(sizes)} modules, {sum(sizes):,} lines; median {statistics.median(sizes):.0f}, p90 {p90}\n"
        f"  largest module {largest.lines} ({largest.where}), longest function {longest.lines} ({longest.where})\n"
        f"  {report.documented} of {total} public definitions have a docstring"
    )


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--summary"]
    report = Report()
    for folder in arguments or ["src"]:
        for path in sorted(Path(folder).rglob("*.py")):
            report.add(path)
    if not report.modules:
        print("  no module found")
        return 0
    if "--summary" in sys.argv:
        print(summary(report))
        over = [
            f"  module   {m.lines:4} lines  {m.where}" for m in sorted(report.modules, reverse=True) if m.lines > MODULE_SOFT
        ]
        over += [
            f"  function {f.lines:4} lines  {f.where}"
            for f in sorted(report.functions, reverse=True)
            if f.lines > FUNCTION_SOFT
        ]
        if over:
            print("  over the soft limits, look for the missing noun:", *over, sep="\n")
        return 0
    too_large = [item for item in report.modules if item.lines > MODULE_HARD]
    too_large += [item for item in report.functions if item.lines > FUNCTION_HARD]
    for item in sorted(too_large, reverse=True):
        print(f"{item.lines} lines, too long: {item.where}")
    for where in report.undocumented:
        print(f"no docstring: {where}")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
