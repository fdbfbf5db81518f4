"""Circles among includes: of folders that reach each other's headers, over any number of steps, and of headers."""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path: str) -> str:
    return str(PurePosixPath(path).parent)


def circles(texts: Mapping[str, str], node_of: Callable[[str], str] = str) -> list[str]:
    """`texts`: sources by path; `node_of`: what of a path is looked at, itself or its folder. A line for each circle, "a -> b -> a";
    of circles that share a node the first only."""
    arrows: dict[str, set[str]] = {}
    for path, text in texts.items():
        targets = arrows.setdefault(node_of(path), set())
        targets.update(node_of(name) for name in INCLUDE.findall(text) if name in texts)
    found: list[str] = []
    on_a_circle: set[str] = set()
    for start in sorted(arrows):
        if start in on_a_circle:
            continue
        # Breadth-first search, until it returns to the start.
        came_from: dict[str, str] = {}
        queue = [start]
        for node in queue:
            for target in sorted(arrows.get(node, set()) - {node}):
                if target not in came_from:
                    came_from[target] = node
                    queue.append(target)
        if start in came_from:
            backwards = [start, came_from[start]]
            while backwards[-1] != start:
                backwards.append(came_from[backwards[-1]])
            on_a_circle.update(backwards)
            found.append(" -> ".join(reversed(backwards)))
    return found
