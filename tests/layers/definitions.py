"""Types of one full name that two headers define.

Each is fine for itself, but the linker takes one of the two destructors for both (C++'s one-definition rule), and no compiler says
so. Headers are read as text, as far as it takes to see namespaces and definitions in them.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
MARK = re.compile(
    r"namespace\s*([\w:]*)\s*\{"
    r"|\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?([A-Za-z_]\w*)(?:\s+final)?\s*(?::[^{};()]*)?\{"
    r"|[{}]"
)  # fmt: skip


def types_of(text: str) -> set[str]:
    """The full names of the types that a header defines, nested ones and those without a name left out."""
    found: set[str] = set()
    open_namespaces: list[str | None] = []  # None: a block of another kind
    for mark in MARK.finditer(NOISE.sub("", text)):
        if mark[0] == "}":
            if open_namespaces:
                open_namespaces.pop()
        elif mark[0].startswith("namespace"):
            open_namespaces.append(mark[1])
        else:
            if mark[2] and None not in open_namespaces:
                found.add("::".join([*filter(None, open_namespaces), mark[2]]))
            open_namespaces.append(None)
    return found


def defined_twice(headers: Mapping[str, str]) -> list[str]:
    """`headers`: their texts by path. A line for each name that more than one of them defines."""
    where = defaultdict(list)
    for path, text in sorted(headers.items()):
        for name in types_of(text):
            where[name].append(path)
    return [f"{name} is defined in {' and in '.join(paths)}" for name, paths in sorted(where.items()) if len(paths) > 1]
