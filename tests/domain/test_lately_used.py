"""What is remembered is bounded in number and in weight; what was not used for longest goes first."""

from treadle_server.domain.lately_used import LatelyUsed


def kept(used: LatelyUsed[str, str]) -> str:
    return "".join(used._kept)


def test_of_too_many_that_goes_which_was_not_used_for_longest() -> None:
    used: LatelyUsed[str, str] = LatelyUsed(3, 100)
    for key in "abc":
        used.put(key, key, 1)

    assert used.get("a") == "a"
    used.put("d", "d", 1)

    assert (kept(used), used.get("b")) == ("cad", None)


def test_of_those_that_weigh_too_much_as_many_go_as_have_to_and_the_last_one_stays() -> None:
    used: LatelyUsed[str, str] = LatelyUsed(10, 100)
    for key in "abc":
        used.put(key, key, 30)

    used.put("d", "d", 50)
    assert kept(used) == "cd"
    used.put("e", "e", 1000)
    assert kept(used) == "e"
    used.put("f", "f", 1)
    assert kept(used) == "f"


def test_what_is_put_in_again_dropped_or_cleared_weighs_no_more() -> None:
    used: LatelyUsed[str, str] = LatelyUsed(10, 100)
    for _ in range(5):
        used.put("a", "a", 60)
    used.put("b", "b", 40)
    assert kept(used) == "ab"
    used.drop("a")
    used.drop("none")
    used.put("c", "c", 60)
    assert kept(used) == "bc"
    used.clear()
    used.put("d", "d", 60)
    used.put("e", "e", 40)

    assert kept(used) == "de"
