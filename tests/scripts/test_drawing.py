"""tools/dev/draw and tools/dev/sequences: the drawings are what their texts say, and show what they must."""

import importlib.machinery
import importlib.util
import re
import sys
import pathlib
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
_loader = importlib.machinery.SourceFileLoader("draw", str(REPOSITORY / "tools/dev/draw"))
draw = importlib.util.module_from_spec(importlib.util.spec_from_loader("draw", _loader))
_loader.exec_module(draw)
_loader = importlib.machinery.SourceFileLoader("sequences", str(REPOSITORY / "tools/dev/sequences"))
sequences = importlib.util.module_from_spec(importlib.util.spec_from_loader("sequences", _loader))
sys.modules["sequences"] = sequences  # its dataclasses look there
_loader.exec_module(sequences)

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


EXCHANGE = """# Two actors.
actor a one & two
actor b the other
a -> b asks
& b --> a answers
note a..b both are content
b -x a ends
= Nothing is left.
"""


class Sequences(unittest.TestCase):
    def drawing(self, text):
        return sequences.drawing_of(sequences.read_sequence(text))

    def test_are_what_their_texts_say(self):
        texts = sorted(sequences.FOLDER.glob("*.txt"))
        self.assertEqual([text.stem for text in texts], ["failure", "rebuild", "rendezvous", "ring"])
        for text in texts:
            self.assertEqual(self.drawing(text.read_text(encoding="utf-8")), text.with_suffix(".svg").read_text(encoding="utf-8"),
                             "tools/dev/sequences makes it")  # fmt: skip

    def test_show_every_line_and_events_of_one_moment_beside_each_other(self):
        drawing = self.drawing(EXCHANGE)
        for words in (">one &amp; two<", ">the other<", ">asks<", ">answers<", ">both are content<", ">ends<", ">Nothing is left.<"):
            self.assertIn(words, drawing)
        heights = {words: re.search(rf'y="([\d.]+)"[^>]*>{words}<', drawing)[1] for words in ("asks", "answers", "ends")}
        self.assertEqual(heights["asks"], heights["answers"])
        self.assertGreater(float(heights["ends"]), float(heights["asks"]))
        self.assertEqual((drawing.count("url(#head)"), drawing.count("url(#cross)")), (2, 1))

    def test_a_wrong_text_is_named_by_its_line(self):
        for wrong, said in (("a -> c asks\n", "line 9: there is no actor c"), ("a ~ b asks\n", "line 9: 'a ~ b asks' is no actor, message, note or line"),
                            ("a -> a asks\n", "line 9: a sends to itself")):  # fmt: skip
            with self.assertRaisesRegex(sequences.Wrong, re.escape(said)):
                self.drawing(EXCHANGE + wrong)
        with self.assertRaisesRegex(sequences.Wrong, "line 2: nothing is before it"):
            self.drawing("actor a one\n& note a two\n")
        with self.assertRaisesRegex(sequences.Wrong, "is longer than its arrow"):
            self.drawing(EXCHANGE + f"a -> b {'words ' * 9}\n")


if __name__ == "__main__":
    unittest.main()
