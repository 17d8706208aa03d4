"""Statistics of the gate: pure functions that import nothing of ours.

The description of a single run needs plain Python alone: ``distributions``, ``sample``,
``intervals``, ``expected`` and ``multiplicity``. All other modules import numpy and scipy, by
``arrays``.
"""
