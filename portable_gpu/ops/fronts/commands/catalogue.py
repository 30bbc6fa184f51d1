"""Typical kernels of fronts, rendered without a device."""

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
    """Return one kernel of each kind."""
    texts = [permute_text(elem, elem, target, back=True), first_failure_text(target)]
    texts += [residual_text(elem, elem, target, sums) for sums in (False, True)]
    texts += [take_text(elem, elem, target), lower_text(elem, target, True, False, 1e-4)]
    texts += inverse.typical_texts(elem, target)
    directions = False, True
    if not target.is_cpu:
        texts += [group.small_text(elem, target, shape) for shape in group.classes(target, elem)]
        texts.append(group.assemble_text(elem, target))
    else:
        texts += [cpu.subtrees_text(elem, target), cpu.assemble_text(elem, target)]
    if not substitution.supports_stages(target, elem):
        return [*texts, *(solve_text(name, elem, target) for name in ("forward", "backward"))]
    texts += [group.tiles_text(elem, target), group.update_text(elem, target)]
    for backward in directions:
        texts += substitution.typical_texts(elem, target, backward)
    return texts
