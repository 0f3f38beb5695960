import threading

from rigproof.host.bounded import Background


def test_a_result_and_an_error_are_kept():
    well, badly = Background(lambda: 7, "t"), Background(lambda: 1 // 0, "t")
    assert well.done(30)
    assert badly.done(30)
    assert (well.result(0), well.results(), well.error) == (7, [7], None)
    assert badly.result(3) == 3
    assert isinstance(badly.error, ZeroDivisionError)


def test_a_call_that_hangs_is_left_behind():
    release = threading.Event()
    hanging = Background(release.wait, "t")
    assert not hanging.done(0.01)
    assert hanging.results() == []
    assert hanging.result(False) is False
    release.set()
    assert hanging.done(30)
