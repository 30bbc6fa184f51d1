"""Dropout and its gradient."""

from portable_gpu.ops.random.dropout import dropout as dropout
from portable_gpu.ops.random.dropout import dropout_backward as dropout_backward
