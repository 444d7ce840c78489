"""First words are kept until a start, or until the job has outlasted what was said of it."""

from rota.scheduling.answers.bands import Bands
from rota.scheduling.answers.words import WORDS_MAX, Said, ToldWords


def begun() -> tuple[Bands, ToldWords]:
    """Job 7 was told at 1,000 that it waits for a minute."""
    bands, words = Bands(), ToldWords()
    words.keep(7, Said(1000.0, bands.say(60.0)))
    return bands, words


def test_a_start_teaches_by_the_first_word_and_only_once():
    bands, words = begun()
    words.keep(7, Said(1050.0, bands.say(9000.0)))

    words.start(7, 1060.0, bands)
    words.start(7, 1070.0, bands)

    window = bands.record.windows[-1]
    assert bands.told == 1
    assert window.ratios[-1] == 0.0


def test_a_job_that_outlasts_a_band_widens_the_next_ones_before_it_starts():
    bands, words = begun()
    before = bands.say(60.0)

    words.pass_time(1000.0 + before.bands_s[0][1] + 1.0, bands)

    after = bands.say(60.0)
    assert bands.told == 0
    assert after.bands_s[0][1] > before.bands_s[0][1]
    assert after.bands_s[2] == before.bands_s[2]


def test_a_job_that_outlasts_all_bands_is_counted_and_its_start_mends_by_how_much():
    bands, words = begun()
    words.pass_time(1e6, bands)
    counted = bands.record.windows[-1].ratios[-1]

    words.start(7, 2e6, bands)

    assert bands.told == 1
    assert bands.record.windows[-1].ratios[-1] > counted


def test_a_job_that_will_not_start_teaches_nothing():
    bands, words = begun()

    words.forget(7)
    words.pass_time(1e6, bands)
    words.start(7, 1060.0, bands)

    assert bands.told == 0
    assert words.jobs == []


def test_the_time_of_an_earlier_wait_is_not_held_against_the_word_about_a_later_one():
    bands, words = begun()
    words.forget(7)
    words.keep(7, Said(1e6, bands.say(9000.0)))
    before = bands.say(9000.0)

    words.pass_time(1e6 + 10.0, bands)

    assert bands.say(9000.0) == before


def test_words_are_bounded():
    bands, words = Bands(), ToldWords()
    said = Said(0.0, bands.say(60.0))

    for job in range(WORDS_MAX + 5):
        words.keep(job, said)

    assert len(words.jobs) == WORDS_MAX


def test_a_job_that_waits_exactly_as_long_as_was_said_has_outlasted_nothing():
    bands, words = begun()
    before = bands.say(60.0)

    words.pass_time(1000.0 + before.bands_s[0][1], bands)

    assert bands.say(60.0) == before
