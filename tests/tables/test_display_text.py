"""Numbers and names as people read them."""

from softcut.tables.display_text import percent, readable, shortened


def test_display_text():
    assert readable(float("nan")) == percent(float("nan")) == "-"
    assert readable(1e-9) == "1.00e-09"  # nobody counts nine zeros
    assert readable(-62_534.0, 4) == "-62,530"
    assert shortened("\x1b[2Jred\nname", 20) == " [2Jred name"  # nothing that steers a terminal
