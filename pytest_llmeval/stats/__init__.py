"""Statistics of the gate: pure functions that import nothing of ours.

What a run is described by, without a comparison, is plain Python: ``distributions``, ``sample``,
``intervals``, ``expected`` and ``multiplicity``. All others import numpy and scipy, by ``arrays``.
"""
