"""Numbers from the paper: some of them directly, and relations between them."""

from otpe.lab.paper import published

RULES = {"ottt", "approx-otpe", "ostl", "otpe"}


def test_some_numbers_of_table_2():
    assert published.OFFLINE[3, 128]["bptt"] == (0.739, 0.025)
    assert published.OFFLINE[5, 512]["ottt"] == (0.635, 0.021)
    assert published.ONLINE[3, 512]["f-otpe"] == (0.753, 0.003)
    assert published.ONLINE[5, 512]["approx-otpe"] == (0.767, 0.008)
    assert published.ONLINE[3, 128]["f-approx-otpe"] == (0.712, 0.017)


def test_table_2_is_complete():
    for table, rules in (
        (published.OFFLINE, RULES | {"bptt"}),
        (published.ONLINE, RULES | {"f-otpe", "f-approx-otpe"}),
    ):
        assert [*table] == [(3, 128), (3, 512), (5, 512)]
        for row in table.values():
            assert set(row) == rules
            assert all(0.6 < each.mean < 0.8 and 0.002 < each.std < 0.03 for each in row.values())
            assert row["otpe"].mean > max(row["ostl"].mean, row["ottt"].mean)


def test_cosines_fall_from_the_output_to_the_first_hidden_layer():
    for cosines, depth in ((published.COSINES_3, 3), (published.COSINES_5, 5)):
        assert set(cosines) == RULES == set(published.COSINES_MODEL)
        for rule, kernels in cosines.items():
            assert len(kernels) == depth
            assert [*kernels] == sorted(kernels, reverse=True)
            assert (kernels[0] == 1) == (rule in ("ostl", "otpe")), "these rules are exact in the output layer"
    assert published.COSINES_3["otpe"][2] == 0.862
    assert published.COSINES_5["approx-otpe"][4] == 0.590
    assert published.COSINES_MODEL["ottt"] == 0.945


def test_the_authors_runs_agree_with_the_papers_text():
    """The text: on spoken digits OTPE is 0.8 points below BPTT, Approx OTPE 5.2, OSTL 7.4, OTTT 9.3; on R-Randman 1.1 above, 0.7."""
    digits = {rule: round(100 * (value - published.DIGITS["bptt"]), 1) for rule, value in published.DIGITS.items()}
    assert digits == {"otpe": -0.8, "approx-otpe": -5.2, "ostl": -7.4, "ottt": -9.3, "bptt": 0}
    randman = {rule: 100 * (value - published.R_RANDMAN["bptt"]) for rule, value in published.R_RANDMAN.items()}
    assert abs(randman["ostl"] - 1.1) < 0.1
    assert abs(randman["ottt"] - 0.7) < 0.05
    assert abs(randman["otpe"] - 0.1) < 0.06
    assert published.T_RANDMAN_FROM_BPTT == {"otpe": 0.007, "ostl": -0.038, "ottt": -0.086}
    assert set(published.DIGITS_LOSS) == set(published.DIGITS)


def test_the_axes_of_the_searches():
    assert len(published.RATES) == 14
    assert [*published.RATES] == sorted(published.RATES, reverse=True)
    assert (published.RATES[0], published.RATES[-1]) == (1e-3, 8.5e-6)
    assert (published.SLOPES, published.WIDTHS, published.LAYERS) == ((5, 10, 25, 50), (128, 256, 384, 512), (3, 5))
