"""``portable-gpu demo``: handwritten digits recognised by a gemm and an argmin on the device."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from portable_gpu.cli.console import path_of
from portable_gpu.cli.files import replacing
from portable_gpu.cli.options import DeviceOption, PictureOption
from portable_gpu.errors import PortableGPUError, how_to_install


def demo(
    device: DeviceOption = None,
    picture: PictureOption = Path("digits.png"),
) -> None:
    """Recognise handwritten digits by their nearest neighbour, and draw some of them."""
    for package in ("matplotlib", "sklearn"):
        if find_spec(package) is None:
            raise PortableGPUError(
                f"the demo needs the package {package}: {how_to_install('demo')}"
            )
    from portable_gpu.cli.digits import Digits, Recogniser, draw, medians, nearest_by_numpy
    from portable_gpu.ops.explain import explain
    from portable_gpu.runtime.engine import Engine

    engine = Engine(device)
    digits = Digits.load()
    recogniser = Recogniser(engine, digits.known)
    nearest = recogniser.nearest(digits.unknown)
    result = digits.known_labels[nearest]
    accuracy = float((result == digits.unknown_labels).mean())
    same = nearest == nearest_by_numpy(digits.known, digits.unknown)
    ours, numpys = medians(
        lambda: recogniser.nearest(digits.unknown),
        lambda: nearest_by_numpy(digits.known, digits.unknown),
    )
    m, k, n = len(digits.unknown), digits.known.shape[1], len(digits.known)
    title = f"Nearest neighbours: accuracy {accuracy:.4f}, {int((1 - same).sum())} unlike NumPy's"
    with replacing(picture) as file:
        draw(digits, result, file, f"Handwritten digits by nearest neighbour: {accuracy:.1%} right")
    gemm = explain("gemm", m, k, n, engine=engine)
    fold = explain("argmin", m, n, axis=1, engine=engine)
    print(f"{engine.target.facts.name}: {path_of(engine.target)}; {engine.reason}")
    print(f"{m} unknown digits against {n} known ones of {k} pixels, by gemm and argmin")
    print(f"  gemm     {gemm.path}: {gemm.why}")
    print(f"  argmin   {fold.path}: {fold.why}")
    print(title)
    print(
        f"Time, median of alternating runs: {1000 * ours:.2f} ms here (copies included), "
        f"{1000 * numpys:.2f} ms by NumPy"
    )
    print(f"Picture: {picture.resolve()}")
