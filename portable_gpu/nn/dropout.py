"""Dropout and its gradient."""

from portable_gpu.ops.random.api import dropout as dropout
from portable_gpu.ops.random.api import dropout_backward as dropout_backward
