"""Faults to plant in graphs of patterns."""

from tests.faults.fault import Fault

FAULTS = [
    Fault(
        "paths go from what is read to its reader",
        "analysis/graphs.py",
        "csgraph.shortest_path(reads, unweighted=True)",
        "csgraph.shortest_path(reads.T, unweighted=True)",
        "analysis/test_graphs.py::test_entry_i_j_goes_from_reader_to_what_is_read",
    ),
    Fault(
        "paths may be walked both ways",
        "analysis/graphs.py",
        "csgraph.shortest_path(reads, unweighted=True)",
        "csgraph.shortest_path(reads, unweighted=True, directed=False)",
        "analysis/test_graphs.py::test_path_lengths_are_the_layers_that_a_signal_needs",
    ),
    Fault(
        "parts meet only where both read each other",
        "analysis/graphs.py",
        "connected_components(adjacency(pattern, n), directed=False)",
        "connected_components(adjacency(pattern, n), connection='strong')",
        "analysis/test_graphs.py::test_parts_that_never_meet_are_counted_whoever_reads_whom",
    ),
    Fault(
        "a receptive field is one layer behind",
        "analysis/graphs.py",
        "return path_lengths(pattern, n) <= n_layers",
        "return path_lengths(pattern, n) < n_layers",
        "analysis/test_graphs.py::test_the_receptive_field_is_what_autograd_sees_through_layers",
    ),
    Fault(
        "the gap is that of the third eigenvalue",
        "analysis/graphs.py",
        "1.0 - sizes[-2]",
        "1.0 - sizes[-3]",
        "analysis/test_graphs.py::test_the_gap_of_a_ring_is_that_of_its_cosines",
    ),
    Fault(
        "the gap looks at eigenvalues without their size",
        "analysis/graphs.py",
        "np.sort(np.abs(np.linalg.eigvals(walk.toarray())))",
        "np.sort(np.real(np.linalg.eigvals(walk.toarray())))",
        "analysis/test_graphs.py::test_the_gap_of_a_ring_is_that_of_its_cosines",
    ),
    Fault(
        "mixing looks at the average start",
        "analysis/graphs.py",
        ".sum(axis=1).max() <= distance",
        ".sum(axis=1).mean() <= distance",
        "analysis/test_graphs.py::test_the_mixing_time_is_that_of_the_walk_from_the_worst_start",
    ),
    Fault(
        "mixing counts twice the distance",
        "analysis/graphs.py",
        "0.5 * np.abs(at - stationary)",
        "np.abs(at - stationary)",
        "analysis/test_graphs.py::test_the_mixing_time_is_that_of_the_walk_from_the_worst_start",
    ),
    Fault(
        "a token that reads nothing falls out of the walk",
        "analysis/graphs.py",
        "@ reads + stay)",
        "@ reads)",
        "analysis/test_graphs.py::test_a_token_that_reads_nothing_stays_where_it_is",
    ),
]
