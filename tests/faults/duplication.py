"""Faults to plant in the duplication experiment."""

from tests.faults.fault import Fault

FILE, TESTS = "experiments/duplication.py", "experiments/test_duplication.py::test_"

FAULTS = [
    Fault(
        "the second word is another one",
        FILE,
        "torch.cat([half, half], dim=1)",
        "torch.cat([half, half.flip(0)], dim=1)",
        TESTS + "a_sequence_is_a_separator_and_a_word_twice",
    ),
    Fault(
        "letters may be separators",
        FILE,
        "torch.randint(1, config.vocab_size",
        "torch.randint(0, config.vocab_size",
        TESTS + "a_sequence_is_a_separator_and_a_word_twice",
    ),
    Fault(
        "the model is asked for the token it reads",
        FILE,
        "tokens[:, start + 1 :]",
        "tokens[:, start:-1]",
        TESTS + "the_second_word_is_asked_for_one_token_ahead",
    ),
    Fault(
        "exact shared attention reads itself",
        FILE,
        ".tril(-1)",
        ".tril()",
        TESTS + "shared_attention_is_what_lsh_becomes_with_one_bucket",
    ),
    Fault(
        "exact shared keys keep their lengths",
        FILE,
        "attention_weights(q, F.normalize(q, dim=-1), mask",
        "attention_weights(q, q, mask",
        TESTS + "shared_attention_is_what_lsh_becomes_with_one_bucket",
    ),
    Fault(
        "all steps of duplication share their rotations",
        FILE,
        "hash_with(model, next(hash_seeds), size.n_buckets)",
        "hash_with(model, 0, size.n_buckets)",
        TESTS + "each_step_has_rotations_of_its_own_and_a_test_has_others",
    ),
    Fault(
        "the rotations of a seed never reach the layer",
        FILE,
        "            part.seed = seed\n",
        "            pass\n",
        TESTS + "rotations_of_a_seed_reach_the_layer",
    ),
    Fault(
        "only one hashing is tested",
        FILE,
        "    return right / len(HASH_SEEDS)",
        "    return right",
        TESTS + "accuracy_counts_the_second_word_over_all_seeds",
    ),
    Fault(
        "the cost leaves out the chunk that is looked back at",
        FILE,
        "config.n * 2 * config.chunk_size",
        "config.n * config.chunk_size",
        TESTS + "the_cost_is_counted_from_the_chunks",
    ),
    Fault(
        "another rule reads with fresh parameters",
        FILE,
        "    other.load_state_dict(model.state_dict())\n",
        "",
        TESTS + "reading_by_another_rule_keeps_the_parameters",
    ),
    Fault(
        "a piece stands at the start of the sequence only",
        "experiments/duplication.py",
        "word = first.clamp(0, half - own) + torch.arange(own)",
        "word = torch.arange(own)",
        TESTS + "a_piece_stands_anywhere_in_both_words_alike",
    ),
    Fault(
        "the places of a piece stay when whole sequences are trained",
        "experiments/duplication.py",
        "        places.at = None\n",
        "",
        TESTS + "pieces_are_trained_first_at_their_places_and_with_their_buckets",
    ),
    Fault(
        "pieces are hashed to the buckets of whole sequences",
        "experiments/duplication.py",
        "part.n_buckets = n_buckets or part.n_buckets",
        "pass",
        TESTS + "pieces_are_trained_first_at_their_places_and_with_their_buckets",
    ),
]
