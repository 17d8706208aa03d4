"""The gate: a run held against a baseline, case by case.

``compare`` and ``describe`` load numpy and scipy; what every session imports, ``scoring``
and ``results``, does not.
"""
