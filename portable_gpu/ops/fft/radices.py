"""The radices of a transform, and the number of work-items among which it is distributed."""

from __future__ import annotations

from functools import lru_cache

from portable_gpu.ops.fft.tables import largest_prime


@lru_cache(maxsize=1024)
def spread(n: int, max_numbers: int, largest: int, group: int) -> tuple[tuple[int, ...], int]:
    """Choose the radices of a transform and the number of its work-items.

    A work-item holds at most ``max_numbers`` numbers.  The number of work-items is such that few of
    them idle in any stage, and at most ``group`` if that is possible.
    """
    radices = factors(n, min(max_numbers, largest))
    max_numbers = max(max_numbers, *radices)
    options = []
    for count in sorted(
        {-(-n // radix // b) for radix in radices for b in range(1, max_numbers + 1)}
    ):
        numbers_each = [-(-n // radix // count) * radix for radix in radices]
        if max(numbers_each) <= max_numbers:
            options.append((count > group, sum(numbers_each) * count, count))
    return radices, min(options)[2]


@lru_cache(maxsize=1024)
def mirrored(n: int, max_numbers: int) -> tuple[tuple[int, ...], int] | None:
    """Choose radices and work-items that have butterflies j and count - j of the last stage.

    Work-items may hold more than ``max_numbers`` numbers.  ``None`` if no last stage allows it.
    """
    options: list[tuple[tuple[int, int, int], tuple[int, ...], int]] = []
    for limit in {max_numbers, 8}:
        radices = factors(n, limit)
        if len(radices) == 1:
            options.append(((max(0, n - max_numbers), 1, 0), radices, 1))
            continue
        for last in {radix for radix in radices if radix % 2 == 0 and n // radix % 2 == 0}:
            pairs = n // last // 2
            others = list(radices)
            others.remove(last)
            for items in (d for d in range(1, pairs + 1) if pairs % d == 0):
                numbers_each = [-(-n // radix // items) * radix for radix in others]
                numbers_each.append(2 * last * (pairs // items))
                worth = (
                    max(0, max(numbers_each) - max_numbers),
                    len(radices),
                    sum(numbers_each) * items,
                )
                options.append((worth, (*others, last), items))
    return min(options)[1:] if options else None


@lru_cache(maxsize=1024)
def factors(n: int, max_radix: int) -> tuple[int, ...]:
    """Return the fewest radices up to ``max_radix`` with product n, about equal, descending."""
    best: tuple[tuple[int, int], tuple[int, ...]] | None = None

    def search(rest: int, limit: int, chosen: tuple[int, ...]) -> None:
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
                search(rest // radix, radix, (*chosen, radix))

    search(n, max(13, max_radix, min(n, largest_prime(n))), ())
    if best is None:
        raise ValueError(f"{n} has no butterfly")
    return best[1] or (1,)
