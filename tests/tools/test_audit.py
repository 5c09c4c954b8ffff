"""tools/audit.py: silence about a package is not a clean bill for it."""

import audit

CLEAN = {"name": "good", "version": "1.0", "vulns": []}


def test_a_package_without_a_weakness_is_not_mentioned():
    assert audit.verdicts({"dependencies": [CLEAN]}) == []


def test_a_weakness_is_named_with_the_version_that_lacks_it():
    weak = {"id": "PYSEC-1", "fix_versions": ["2.1"]}
    hopeless = {"id": "PYSEC-2", "fix_versions": []}
    package = {"name": "bad", "version": "2.0", "vulns": [weak, hopeless]}
    assert audit.verdicts({"dependencies": [CLEAN, package]}) == [
        "bad 2.0: PYSEC-1, take 2.1",
        "bad 2.0: PYSEC-2, no version is without it",
    ]


def test_a_package_that_could_not_be_asked_about_is_a_failure():
    package = {"name": "far", "skip_reason": "not found"}
    assert audit.verdicts({"dependencies": [package]}) == ["far: nothing is known, not found"]


def test_versions_are_asked_for_without_their_local_part():
    listed = audit.installed()
    assert any(line.startswith("torch==") for line in listed)
    assert not any("+" in line or line.startswith("tinyattn") for line in listed)
