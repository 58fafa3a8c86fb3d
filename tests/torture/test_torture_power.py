"""The short form of bench/torture/power.py, and that it sees what a missing sync loses."""

import pytest

pytest.importorskip("apsw")

from bench.torture import power
from bench.torture.disks import Content, Disk, Event
from bench.torture.ground import dice


@pytest.mark.few_values(2)
@pytest.mark.parametrize("form", power.FORMS, ids=" ".join)
def test_a_loss_of_power_leaves_what_was_promised(form, monkeypatch):
    monkeypatch.setattr(power, "FORMS", (form,))
    found = power.campaign(seed=1, images=50)
    assert found["faults"] == []
    assert found["images"] == 50


@pytest.mark.few_values(1)
@pytest.mark.parametrize("kind", ["wal", "journal", "jsonl"])
def test_a_store_that_does_not_sync_is_found_out(kind, monkeypatch):
    class Careless(power.Recording):
        """Notes no sync of content."""

        def add(self, event):
            if event.what != "sync":
                super().add(event)

    monkeypatch.setattr(power, "FORMS", ((kind, "full"),))
    monkeypatch.setattr(power, "Recording", Careless)
    assert power.campaign(seed=1, images=50)["wrong"] > 0


def test_a_disk_keeps_what_was_synced_and_any_sectors_of_the_rest():
    content = Content()
    content.since.append(Event("write", 1, data=b"a" * 1_024))
    content.sync()
    content.since.append(Event("write", 1, at=512, data=b"b" * 1_024))
    assert content.left("all", dice(1)) == b"a" * 1_024
    assert content.left("none", dice(1)) == b"a" * 512 + b"b" * 1_024
    seen = {content.left("any order", dice(seed)) for seed in range(100)}
    assert seen == {
        b"a" * 1_024,
        b"a" * 512 + b"b" * 512,
        b"a" * 512 + b"b" * 1_024,
        b"a" * 1_024 + b"b" * 512,
    }
    assert {content.left("in order", dice(seed)) for seed in range(100)} == seen - {b"a" * 1_024 + b"b" * 512}


def test_a_name_counts_when_its_folder_was_synced(tmp_path):
    disk = Disk()
    disk.take(Event("name", 1, "old"))
    disk.take(Event("write", 1, data=b"x"))
    disk.take(Event("sync", 1))
    disk.image(tmp_path, "all", dice(1))
    assert list(tmp_path.iterdir()) == []
    disk.take(Event("sync names"))
    disk.take(Event("rename", 1, "new", old="old"))
    disk.image(tmp_path, "all", dice(1))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"x"
    assert disk.names(1) == {"new": 1}
