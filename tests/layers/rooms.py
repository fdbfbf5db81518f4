"""The rooms of docs/architecture/rooms.txt: tools/dev/draw draws them, tests/layers/check holds their arrows to the build graph.

The file says how it is written.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

TEXT = Path(__file__).resolve().parents[2] / "docs/architecture/rooms.txt"


class Wrong(Exception):
    """The text cannot be read; says where."""


@dataclass(frozen=True)
class Room:
    folder: str
    column: float
    row: int
    words: str


@dataclass
class House:
    rooms: dict[str, Room] = field(default_factory=dict)
    arrows: dict[str, set[str]] = field(default_factory=dict)  # from each room to the rooms whose code it names
    frames: dict[str, str] = field(default_factory=dict)  # folders, with "/", and their colours

    def room_of(self, folder: str) -> str | None:
        """The innermost room in which a folder lies."""
        around = [room for room in self.rooms if folder == room or folder.startswith(room + "/")]
        return max(around, key=len, default=None)


def read_house(text: str) -> House:
    house = House()
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        if match := re.fullmatch(r"house (\S+/) (#[0-9a-f]{6})", line):
            house.frames[match[1]] = match[2]
        elif match := re.fullmatch(r"room (\S+) +(\d+(?:\.\d+)?) +(\d+) +(.+)", line):
            house.rooms[match[1]] = Room(match[1], float(match[2]), int(match[3]), match[4])
        elif match := re.fullmatch(r"(\S+): (\S.*)", line):
            house.arrows[match[1]] = set(match[2].split())
            if unknown := {match[1], *house.arrows[match[1]]} - house.rooms.keys():
                raise Wrong(f"line {number}: there is no room {min(unknown)}")
        else:
            raise Wrong(f"line {number}: {line!r} is no house, room or list of arrows")
    return house


def differences(house: House, arrows: set[tuple[str, str]]) -> list[str]:
    """What the text must say otherwise for its arrows to be these; nothing if nothing."""
    drawn = {(begin, end) for begin, ends in house.arrows.items() for end in ends}
    missing = [f"the arrow {begin} -> {end} is in the build graph and not in {TEXT.name}" for begin, end in sorted(arrows - drawn)]
    return missing + [f"the arrow {begin} -> {end} is in {TEXT.name} and not in the build graph" for begin, end in sorted(drawn - arrows)]
