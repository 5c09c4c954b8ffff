"""No fault that is planted in layers and models survives. tests/faults lists them."""

from ..planted import chosen, groups, replay


def test_every_fault_is_found_by_the_test_that_should():
    verdicts = replay(groups(chosen())["transformer"])
    assert {fault.what: verdict for fault, verdict in verdicts.items() if verdict != "killed"} == {}
