"""tools/dev/draw: the drawing is what its text says, and shows what it must."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_loader = importlib.machinery.SourceFileLoader("draw", str(REPOSITORY / "tools/dev/draw"))
draw = importlib.util.module_from_spec(importlib.util.spec_from_loader("draw", _loader))
_loader.exec_module(draw)
import rooms  # noqa: E402  # draw has made its folder known

SMALL = """# A house of four.
house b/ #eef4fb
room a 0 0 the attic
room b 0 1 one & two
room b/c 1 1 below one
room d 0 2 the cellar
a: b b/c d
b: b/c d
b/c: b d
"""


def house(text=SMALL):
    return rooms.read_house(text)


class Drawing(unittest.TestCase):
    def test_is_what_the_text_says(self):
        text = rooms.TEXT.read_text(encoding="utf-8")
        self.assertEqual(draw.drawing_of(house(text)), draw.DRAWING.read_text(encoding="utf-8"), "tools/dev/draw makes it")

    def test_shows_every_room_and_leaves_out_arrows_for_which_a_way_stands(self):
        drawing = draw.drawing_of(house())
        for words in (">a<", ">b<", ">c<", ">d<", ">the attic<", ">one &amp; two<", ">b/<"):
            self.assertIn(words, drawing)
        self.assertEqual(draw.drawn_arrows(house()), [("a", "b"), ("b", "b/c"), ("b", "d"), ("b/c", "b")])

    def test_leads_no_line_through_a_box(self):
        drawn = house(rooms.TEXT.read_text(encoding="utf-8"))
        boxes = {folder: draw.Box(room) for folder, room in drawn.rooms.items()}
        arrows = draw.drawn_arrows(drawn)
        lines = draw.Lines(boxes, arrows)
        for arrow in arrows:
            for (x, y), (_, to_y) in zip(lines.points(arrow), lines.points(arrow)[1:]):
                for folder, box in boxes.items():
                    inside = box.left < x < box.right and min(y, to_y) < box.bottom and max(y, to_y) > box.top
                    self.assertFalse(inside and abs(to_y - y) == draw.BOX_HEIGHT, f"{arrow} leads through {folder}")


class Text(unittest.TestCase):
    def test_is_wrong_by_line(self):
        for wrong, said in (("room e 0\n", "line 10: 'room e 0' is no house"), ("a: e\n", "line 10: there is no room e"), ("e: a\n", "line 10: there is no room e")):
            with self.assertRaisesRegex(rooms.Wrong, said):
                house(SMALL + wrong)
        with self.assertRaisesRegex(rooms.Wrong, "room a: its words are more than two lines"):
            draw.drawing_of(house(SMALL.replace("the attic", "words " * 9)))

    def test_differs_from_a_graph_by_single_arrows(self):
        arrows = {("a", "b"), ("a", "b/c"), ("a", "d"), ("b", "b/c"), ("b", "d"), ("b/c", "b"), ("b/c", "d")}
        self.assertEqual(rooms.differences(house(), arrows), [])
        self.assertEqual(
            rooms.differences(house(), arrows - {("a", "d")} | {("d", "a")}),
            ["the arrow d -> a is in the build graph and not in rooms.txt", "the arrow a -> d is in rooms.txt and not in the build graph"],
        )

    def test_gives_a_folder_to_the_innermost_room(self):
        self.assertEqual([house().room_of(folder) for folder in ("b/x", "b/c", "b/c/x", "bc", "")], ["b", "b/c", "b/c", None, None])


if __name__ == "__main__":
    unittest.main()
