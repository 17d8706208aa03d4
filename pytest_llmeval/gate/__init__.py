"""The gate: compares a run with a baseline, case by case.

``compare`` and ``describe`` load numpy and scipy; ``scoring`` and ``results``, which every session
imports, do not.
"""
