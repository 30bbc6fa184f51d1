"""Typical kernels of fronts, rendered without a device."""

from __future__ import annotations

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts import cpu, group, inverse, substitution
from portable_gpu.ops.fronts.lower import lower_spec
from portable_gpu.ops.fronts.residual import residual_spec
from portable_gpu.ops.fronts.solve import permute_spec, solve_spec, take_spec
from portable_gpu.ops.fronts.stages import first_failure_spec
from portable_gpu.targets import Target


def typical_texts(target: Target, elem: Element) -> list[Specialization]:
    """Return one kernel of each kind."""
    texts = [permute_spec(elem, elem, target, back=True), first_failure_spec(target)]
    texts += [residual_spec(elem, elem, target, sums) for sums in (False, True)]
    texts += [take_spec(elem, elem, target), lower_spec(elem, target, True, False, 1e-4)]
    texts += inverse.typical_texts(elem, target)
    directions = False, True
    if not target.is_cpu:
        texts += [group.small_spec(elem, target, shape) for shape in group.classes(target, elem)]
        texts.append(group.assemble_spec(elem, target))
    else:
        texts += [cpu.subtrees_spec(elem, target), cpu.assemble_spec(elem, target)]
    if not substitution.supports_stages(target, elem):
        return [*texts, *(solve_spec(name, elem, target) for name in ("forward", "backward"))]
    texts += [group.tiles_spec(elem, target), group.update_spec(elem, target)]
    for backward in directions:
        texts += substitution.typical_texts(elem, target, backward)
    return texts
