"""The mutation campaign names files that exist: it runs for hours, and nobody is there when it fails."""

from bench import mutate


def test_every_campaign_names_files_that_exist():
    places = [place for sources, tests in mutate.CAMPAIGNS.values() for place in (*sources, *tests)]
    assert places
    assert [place for place in places if not (mutate.ROOT / place).exists()] == []
