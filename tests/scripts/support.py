"""What the tests of the scripts share."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
