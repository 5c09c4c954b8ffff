"""Faults to plant in what a pixel knows, and in the walk along patterns that says it."""

from tests.faults.fault import Fault

SAID = "show/test_pixels.py::"
SEEN = "show/test_pixels_in_browser.py::"
RULES = SEEN + "test_every_pixel_of_pictures_of_all_shapes_reads_what_python_says"
GRAPHS, SCRIPT, STUDIO = "analysis/graphs.py", "show/static/pixels.js", "show/pixels.py"

FAULTS = [
    Fault(
        "layers are followed from the first instead of the last",
        GRAPHS,
        "for layers, rule in enumerate(reversed(rules), start=1):",
        "for layers, rule in enumerate(rules, start=1):",
        SAID + "test_layers_are_counted_from_the_last",
    ),
    Fault(
        "a position forgets itself from layer to layer",
        GRAPHS,
        "        reads[frontier] = True\n",
        "",
        SAID + "test_a_position_is_carried_by_the_residual_connection",
    ),
    Fault(
        "what is seen again counts for the later layer",
        GRAPHS,
        "seen[reads & (seen == 0)] = layers",
        "seen[reads] = layers",
        SAID + "test_a_pixel_knows_what_chains_of_reads_lead_to",
    ),
    Fault(
        "rows and columns covered are swapped",
        STUDIO,
        "for k in (1, 0))",
        "for k in (0, 1))",
        SAID + "test_what_is_shown_is_counted_and_said",
    ),
    Fault(
        "a causal rule reaches the page without its direction",
        STUDIO,
        "core, causal = core.left if core.right == Causal() else core.right, True",
        "core = core.left if core.right == Causal() else core.right",
        SAID + "test_the_page_gets_light_as_bytes_and_rules_as_numbers",
    ),
    Fault(
        "a pixel below the picture is taken",
        STUDIO,
        "0 <= place[0] < height",
        "0 <= place[0] <= height",
        SAID + "test_what_cannot_be_shown_is_refused_and_the_last_good_one_stays",
    ),
    Fault(
        "the page shows rows below a causal pixel's own in its tile",
        SCRIPT,
        "stop = r < row ? right : r === row ? col + 1 : left;",
        "stop = r < row ? right : r === row ? col + 1 : right;",
        RULES,
    ),
    Fault(
        "the page takes the flange of columns for that of rows",
        SCRIPT,
        "let r = Math.max(0, top - flange[0])",
        "let r = Math.max(0, top - flange[1])",
        RULES,
    ),
    Fault(
        "a column of the page starts at the pixel",
        SCRIPT,
        "return [[at % size, end, size]];",
        "return [[at, end, size]];",
        RULES,
    ),
    Fault(
        "a short last block of the page runs on",
        SCRIPT,
        "Math.min(start + size, end), 1]",
        "start + size, 1]",
        RULES,
    ),
    Fault(
        "the page follows layers from the first",
        SCRIPT,
        "rules.toReversed().forEach(",
        "rules.slice().forEach(",
        RULES,
    ),
    Fault(
        "the picture shows layers that are not asked for",
        SCRIPT,
        "return layers > n_layers ? 0 : layers;",
        "return layers;",
        SEEN + "test_what_is_seen_and_said_is_what_python_computes",
    ),
    Fault(
        "a pixel leaves the picture by keyboard",
        SCRIPT,
        "Math.min(row, height - 1)",
        "Math.min(row, height)",
        SEEN + "test_arrow_keys_move_the_pixel_and_stop_at_the_borders",
    ),
    Fault(
        "a finger that scrolls chooses pixels",
        SCRIPT,
        'canvas.addEventListener("click", pointed);',
        'canvas.addEventListener("pointerdown", pointed);',
        SEEN + "test_a_finger_that_scrolls_chooses_nothing",
    ),
    Fault(
        "tiles that were cut for another picture are taken",
        "show/pixels.py",
        "if (core.height, core.width) != (height, width):",
        "if core.height * core.width < height * width:",
        "show/test_pixels.py::test_what_is_no_picture_or_no_stack_is_refused",
    ),
    Fault(
        "a rule that is causal already is not cut to the past once more",
        "show/pixels.py",
        "while isinstance(core, Intersection) and Causal() in (core.left, core.right):",
        "if isinstance(core, Intersection) and Causal() in (core.left, core.right):",
        "show/test_pixels.py::test_causal_may_stand_on_either_side_and_twice",
    ),
]
