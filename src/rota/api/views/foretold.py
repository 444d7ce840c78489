"""When a waiting job will probably start, as the API shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.api.views.times import Moment, when
from rota.scheduling.answers.bands import SHARES

if TYPE_CHECKING:
    from rota.scheduling.answers.bands import Bands
    from rota.scheduling.answers.words import Said


class BandView(msgspec.Struct):
    """Between these moments this share of such jobs starts."""

    share: float
    from_at: Moment | None
    to_at: Moment | None


class ForetoldView(msgspec.Struct):
    """The expected start, by when nine in ten such jobs have started, and bands around it.

    Before 10 starts were learned from, nobody says nine in ten (null), and the bands are those of
    recorded logs.
    """

    expected_at: Moment | None
    nine_in_ten_at: Moment | None
    bands: list[BandView]
    #: Starts on this site that the bands were learned from.
    starts: int
    #: Ended jobs by which is known when the job in front ends; 0: its time limit says it. Null:
    #: it waits for no job to end.
    runs: int | None


def foretold_view(said: Said | None, now_s: float, learned: Bands) -> ForetoldView | None:
    """Nothing that is said lies in the past.

    Moments are those of the word, not of whole seconds: a band of short waits may be no wider.
    """
    if said is None:
        return None
    since_s, word, runs = said

    def moment(wait_s: float) -> Moment | None:
        return when(max(since_s + wait_s, now_s))

    bands = [
        BandView(share, moment(low), moment(high))
        for share, (low, high) in zip(SHARES, word.bands_s, strict=True)
    ]
    most_at = moment(word.most_s) if learned.is_sure(word) else None
    return ForetoldView(moment(word.wait_s), most_at, bands, learned.starts_behind(word), runs)
