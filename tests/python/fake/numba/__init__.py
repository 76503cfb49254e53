# SPDX-License-Identifier: LGPL-2.1-or-later
"""As much of numba-cuda as vpmm.numba and its example touch, by the same names: what calls what is as in 0.30."""

__version__ = "0.61+fake"
