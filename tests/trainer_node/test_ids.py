"""Ids in logs and commands."""

from trainer_node.ids import short, whole


def test_the_beginning_is_the_same_for_every_kind() -> None:
    digits = "0123456789abcdef" * 4
    assert (
        short(bytes.fromhex(digits))
        == short(digits)
        == short("0x" + digits)
        == short(int(digits, 16))
        == "0x01234567…"
    )


def test_an_id_of_a_match_keeps_its_leading_zeros() -> None:
    """So what a log names is found by what a command shows."""
    assert whole(0xABC) == "0x" + "0" * 61 + "abc"
    assert whole(0xABC).startswith(short(0xABC).rstrip("…"))
    assert short("0xab") == "0xab"
