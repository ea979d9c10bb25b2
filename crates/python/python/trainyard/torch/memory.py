"""Memory of tensors, which the C library keeps from step to step."""

from __future__ import annotations

import ctypes
import os

# Numbers of options in `malloc.h` of glibc.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
MMAP_BYTES = 32 << 20
"""Blocks from this size on are returned to the system at once: the most that each glibc takes."""
TRIM_BYTES = 1 << 30
"""Free memory above which the rest is returned."""
CHOICES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_blocks() -> None:
    """Lets glibc keep blocks that PyTorch frees, unless the environment has chosen otherwise.

    Each step asks for tensors of the sizes that the step before has freed. If they are returned to the system in between, it
    clears their pages for each step: some 4 % of a step of `configs/ctr-tensorflow.toml` at batch 512.
    """
    if any(name in os.environ for name in CHOICES):
        return
    # Other C libraries have no such function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
