"""Embeddings and their gradient."""

from portable_gpu.ops.embedding.api import embedding as embedding
from portable_gpu.ops.embedding.api import embedding_backward as embedding_backward
