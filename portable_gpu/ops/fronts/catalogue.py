"""Kernels of fronts with no device at hand."""

from __future__ import annotations

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts import cpu, group, inverse, substitution
from portable_gpu.ops.fronts.lower import lower_text
from portable_gpu.ops.fronts.residual import residual_text
from portable_gpu.ops.fronts.solve import permute_text, solve_text, take_text
from portable_gpu.ops.fronts.stages import first_failure_text
from portable_gpu.targets import Target


def typical_texts(target: Target, elem: Element) -> list[Specialization]:
    """Kernels of each kind."""
    found = [permute_text(elem, elem, target, back=True), first_failure_text(target)]
    found += [residual_text(elem, elem, target, sums) for sums in (False, True)]
    found += [take_text(elem, elem, target), lower_text(elem, target, True, False, 1e-4)]
    found += inverse.typical_texts(elem, target)
    directions = False, True
    if not target.is_cpu:
        found += [group.small_text(elem, target, one) for one in group.classes(target, elem)]
        found.append(group.assemble_text(elem, target))
    else:
        found += [cpu.subtrees_text(elem, target), cpu.assemble_text(elem, target)]
    if not substitution.takes_stages(target, elem):
        return [*found, *(solve_text(name, elem, target) for name in ("forward", "backward"))]
    found += [group.tiles_text(elem, target), group.update_text(elem, target)]
    for backward in directions:
        found += substitution.typical_texts(elem, target, backward)
    return found
