"""Every object belongs to exactly one shard, and stays there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.app.config import shard
from gpuledger.core.sharding import Shard


@given(st.text(), st.integers(1, 20))
def test_every_object_belongs_to_exactly_one_shard(uid: str, count: int) -> None:
    assert 1 == sum(Shard(index, count).owns(uid) for index in range(count))


def test_shards_get_about_the_same() -> None:
    uids = [f"00000000-0000-4000-8000-{number:012}" for number in range(30_000)]
    owned = Counter(index for uid in uids for index in range(3) if Shard(index, 3).owns(uid))
    assert all(count == pytest.approx(10_000, rel=0.05) for count in owned.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0/1", Shard(0, 1)), ("2/3", Shard(2, 3)), ("gpuledger-cluster-2/3", Shard(2, 3))],
)
def test_a_shard_as_it_is_written(text: str, expected: Shard) -> None:
    assert expected == shard(text)


@pytest.mark.parametrize("text", ["3/3", "1", "a/3", "gpuledger2/3", "0/0", "-1/3x", ""])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="write INDEX/COUNT"):
        shard(text)
