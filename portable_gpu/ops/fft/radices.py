"""Radices of a transform, and how many work-items have its butterflies."""

from __future__ import annotations

from functools import lru_cache

from portable_gpu.ops.fft.tables import largest_prime


@lru_cache(maxsize=1024)
def spread(n: int, most: int, largest: int, group: int) -> tuple[tuple[int, ...], int]:
    """The radices of a transform, and its work-items, which hold at most ``most`` numbers each.

    The work-items are such that few of them idle in any stage, and no more than ``group`` if so
    many can hold the transform.
    """
    radices = factors(n, min(most, largest))
    most = max(most, *radices)
    found = []
    for count in sorted({-(-n // radix // b) for radix in radices for b in range(1, most + 1)}):
        each = [-(-n // radix // count) * radix for radix in radices]
        if max(each) <= most:
            found.append((count > group, sum(each) * count, count))
    return radices, min(found)[2]


@lru_cache(maxsize=1024)
def mirrored(n: int, most: int) -> tuple[tuple[int, ...], int] | None:
    """The same where work-items have butterflies j and count - j of the last stage.

    They may hold more than ``most`` numbers.  ``None`` where no last stage can be shared so.
    """
    found: list[tuple[tuple[int, int, int], tuple[int, ...], int]] = []
    for limit in {most, 8}:
        radices = factors(n, limit)
        if len(radices) == 1:
            found.append(((max(0, n - most), 1, 0), radices, 1))
            continue
        for last in {radix for radix in radices if radix % 2 == 0 and n // radix % 2 == 0}:
            pairs = n // last // 2
            others = list(radices)
            others.remove(last)
            for items in (d for d in range(1, pairs + 1) if pairs % d == 0):
                each = [-(-n // radix // items) * radix for radix in others]
                each.append(2 * last * (pairs // items))
                worth = max(0, max(each) - most), len(radices), sum(each) * items
                found.append((worth, (*others, last), items))
    return min(found)[1:] if found else None


@lru_cache(maxsize=1024)
def factors(n: int, most: int) -> tuple[int, ...]:
    """Few radices up to ``most`` whose product is n, as equal as can be; the largest ones first."""
    best: tuple[tuple[int, int], tuple[int, ...]] | None = None

    def go(rest: int, limit: int, chosen: tuple[int, ...]) -> None:
        nonlocal best
        if rest == 1:
            worth = len(chosen), sum(chosen)
            if best is None or worth < best[0]:
                best = worth, chosen
            return
        if best is not None and len(chosen) >= best[0][0]:
            return
        for radix in range(min(limit, rest), 1, -1):
            if rest % radix == 0:
                go(rest // radix, radix, (*chosen, radix))

    go(n, max(13, most, min(n, largest_prime(n))), ())
    if best is None:
        raise ValueError(f"{n} has no butterfly")
    return best[1] or (1,)
