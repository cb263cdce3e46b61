"""Saved bits are told in words that a reader cannot take for more than they are."""

from dynpart.wording import saving_in_words, times_in_words


def test_bits_in_words():
    assert times_in_words(1) == "2 times"
    assert times_in_words(0.05) == "1.04 times"
    assert times_in_words(4) == "about 16 times"
    assert times_in_words(10) == "about 1,000 times"
    assert times_in_words(64) == "2^64 times"
    assert "takes 3.0 bits less" in saving_in_words(3.0)
    assert "on their own" in saving_in_words(-1.0)
    assert "less than pixel by pixel" in saving_in_words(3.0, part="pixel")
    assert saving_in_words(-1.0, summed=-0.5).endswith("these experts found nothing that holds.")
    assert saving_in_words(0.02).endswith("its experts save next to nothing.")
    assert saving_in_words(-0.02, summed=1.0).endswith("it is 2 times as likely.")
    for summed in (None, 0.5):
        assert "nothing that holds" not in saving_in_words(-1.0, summed=summed)


def test_the_sum_over_codes_is_mentioned_if_it_saves_clearly_more():
    assert saving_in_words(0.12, summed=1.51) == (
        "A row takes 0.1 bits less than column by column: 1.09 times as likely. "
        "Over all choices of experts, it takes 1.5 bits less: 2.8 times as likely."
    )
    for saved, summed in ((0.2, 0.29), (20.0, 21.9), (45.0, None)):
        assert saving_in_words(saved, summed=summed).endswith("times as likely.")
        assert "choice" not in saving_in_words(saved, summed=summed)
    assert saving_in_words(0.12).endswith("1.09 times as likely with one choice of experts.")
