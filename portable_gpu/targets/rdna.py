"""AMD RDNA GPUs: wavefronts of 32 (or 64, where the driver says so)."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.gcn import GCN, derive_wavefront, is_amd_gpu
from portable_gpu.targets.target import DeviceFacts


def _matches(facts: DeviceFacts) -> bool:
    wave32 = facts.wavefront_width_amd == 32
    new = facts.gfxip_amd is not None and facts.gfxip_amd[0] >= 10
    return is_amd_gpu(facts) and (wave32 or new)


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    derive_wavefront(facts, out, 32, 1024)


RDNA = DeviceClass(
    name="rdna",
    define="RDNA_DEVICE",
    summary="AMD RDNA GPUs: wavefronts of 32, LDS or DPP",
    matches=_matches,
    derive=_derive,
    example=replace(
        GCN.example,
        name="gfx1030",
        compute_units=36,
        max_work_group_size=256,
        wavefront_width_amd=32,
        gfxip_amd=(10, 3),
        preferred_multiple_probed=32,
    ),
)
