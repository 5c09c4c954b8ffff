"""Faults to plant in the survey's tree, and in the claims of the chapters."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "names of the tree are put into html as they are",
        "show/taxonomy.py",
        'name = f"<strong>{escape(node.name)}</strong>" if node.parts else escape(node.name)',
        'name = f"<strong>{node.name}</strong>" if node.parts else node.name',
        "show/test_taxonomy.py::test_names_are_escaped",
    ),
    Fault(
        "links of the tree leave the folder of chapters",
        "show/taxonomy.py",
        '<a href="{node.chapter}.html">',
        '<a href="../{node.chapter}.html">',
        "show/test_taxonomy.py::test_every_link_leads_to_a_chapter_of_the_table_of_contents",
    ),
    Fault(
        "a level too many of the tree stands open",
        "show/taxonomy.py",
        "if open_levels > 0 else",
        "if open_levels >= 0 else",
        "show/test_taxonomy.py::test_as_many_levels_stand_open_as_are_asked_for",
    ),
    Fault(
        "bytes are taken for seconds",
        "analysis/pattern_claims.py",
        '== ("time", case, mode) and "seconds" in cell',
        '== (cell["kind"], case, mode) and "seconds" in cell',
        "analysis/test_pattern_claims.py::test_cells_without_seconds_or_of_another_kind_do_not_count",
    ),
    Fault(
        "axial attention is claimed to be linear",
        "analysis/pattern_claims.py",
        'count("axial on a square, pairs", 1.5,',
        'count("axial on a square, pairs", 1,',
        "analysis/test_pattern_claims.py::test_every_claim_of_the_chapters_holds_and_none_is_made_twice",
    ),
    Fault(
        "every model says again that it is outside",
        "show/taxonomy.py",
        "_item(part, open_levels - 1, told=outside)",
        "_item(part, open_levels - 1)",
        "show/test_taxonomy.py::test_a_family_is_outside_the_book_if_all_of_it_is_and_only_then",
    ),
]
