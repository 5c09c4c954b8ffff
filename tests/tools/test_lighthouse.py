"""tools/lighthouse.py: what is kept of a report."""

import json

import pytest

import lighthouse


def test_scores_are_out_of_a_hundred():
    report = {
        "categories": {"performance": {"score": 0.957}, "accessibility": {"score": 1}},
        "audits": {"total-byte-weight": {"numericValue": 123_456}},
    }
    assert lighthouse.scores(report) == {"performance": 96, "accessibility": 100, "kB": 123}


def test_what_is_stored_holds_every_page_on_both_screens_and_none_with_a_barrier():
    stored = json.loads(lighthouse.RESULT.read_text(encoding="utf-8"))
    asked = {(row["page"], row["screen"]) for row in stored["rows"]}
    assert asked == {(page, screen) for page in lighthouse.PAGES for screen in lighthouse.SCREENS}
    assert {row["accessibility"] for row in stored["rows"]} == {100}
    for other in ("best-practices", "seo"):
        assert min(row[other] for row in stored["rows"]) >= 95
    assert min(row["performance"] for row in stored["rows"] if row["screen"] == "desktop") >= 90


def test_without_node_it_says_so(tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("")
    monkeypatch.setattr(lighthouse, "SITE", tmp_path)
    monkeypatch.delenv("LIGHTHOUSE", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SystemExit, match="needs node"):
        lighthouse.main()
