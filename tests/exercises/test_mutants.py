"""Solutions with one small fault are refused: nine of ten at least, for every exercise with code."""

import contextlib
import io
import signal

import pytest

from exercise_pages import PAGES, read_page
from tests.exercises.mutants import mutants
from tests.exercises.test_pages import PARTS, answer_of, run
from tinyattn.exercises import exercise, grade

SECONDS = 5  # for a mutant that never ends
SEED = 5
CODED = [part for part in PARTS if exercise(part.name).kind != "break"]  # those take any good input

# Changes that leave a solution right, with the reason. Everything else must be refused.
EQUIVALENT = {
    "attention/spread": {
        "line 4: no sign": "of two axes the one at 1 is the last",
    },
    "transformer/hears": {
        "line 6: no sign": "of two axes the one at 1 is the last",
        "line 6: Gt for another": "no difference is as large as the tolerance exactly",
        "line 6: 2 * 1e-05": "any tolerance between rounding and 0.01 will do",
    },
    "comparison/symmetries": {
        "line 6: 2 * 1e-05": "any tolerance between rounding and 0.001 will do",
    },
    "taxonomy/look": {
        "line 4: Lt for another": "no weight is equal to the tolerance",
        "line 4: 2 * 1e-09": "any tolerance between rounding and 0.001 will do",
        "line 6: 2 * 1e-09": "any tolerance between rounding and 0.001 will do",
    },
    "usage/sample": {
        "line 3: LtE for another": "no sum is equal to its u",
    },
    "learned/gumbel": {
        "line 2: 50000 + 1": "one more draw",
    },
    "lsh/meet": {
        "line 3: 50000 + 1": "one more draw",
        "line 9: 2 * 1.0": "a hash by angles does not see lengths",
    },
}


@contextlib.contextmanager
def limited_time():
    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def survives(part, opening, source):
    """Whether the check takes the changed solution for right."""
    try:
        with limited_time(), contextlib.redirect_stdout(io.StringIO()):
            names = run(opening)
            exec(source, names)  # noqa: S102
            grade(part.name, eval(answer_of(part), names), SEED)
    except Exception:  # noqa: BLE001 - refused, or it broke by itself
        return False
    return True


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="stops endless mutants by a signal")
@pytest.mark.parametrize("part", CODED, ids=lambda part: part.name)
def test_nine_of_ten_changed_solutions_are_refused(part):
    opening, _ = read_page(PAGES / f"{part.name.split('/')[0]}.ipynb")
    body = part.solution.source.rsplit("check(", 1)[0]
    harmless = EQUIVALENT.get(part.name, {})
    found = [(what, source) for what, source in mutants(body) if what not in harmless]
    left = [what for what, source in found if survives(part, opening, source)]
    assert len(left) <= len(found) / 10, f"{len(left)} of {len(found)} survive: {left}"


def test_a_check_that_accepts_everything_would_be_found_out():
    changed = [source for _, source in mutants("def f(n, w):\n    return 2 * w + 1 <= n and ~n\n")]
    assert len(changed) == len(set(changed)) == 7
    assert "return 2 + w + 1 <= n and ~n" in "".join(changed)
    assert "return 2 * w + 1 < n and ~n" in "".join(changed)
    assert "return 2 * w + 1 <= n and ~~n" in "".join(changed)


def test_every_change_that_is_called_harmless_exists_and_is():
    for part in CODED:
        opening, _ = read_page(PAGES / f"{part.name.split('/')[0]}.ipynb")
        body = part.solution.source.rsplit("check(", 1)[0]
        listed = EQUIVALENT.get(part.name, {})
        found = {
            what
            for what, source in mutants(body)
            if what in listed and survives(part, opening, source)
        }
        assert found == set(listed)
