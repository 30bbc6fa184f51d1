"""Several devices of one machine, and arrays that are larger than memory."""

from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.group import DeviceGroup
from portable_gpu.multi.member import Member
from portable_gpu.multi.timeline import Span, Timeline
from portable_gpu.multi.training import DataParallel

__all__ = ["DataParallel", "DeviceGroup", "GroupArray", "GroupBlock", "Member", "Span", "Timeline"]
