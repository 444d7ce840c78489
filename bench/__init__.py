"""Benchmarks: ratios against the machine and against the peers, measured in one run.

``python -m bench --help`` lists the sections; docs/benchmarks.md says what each one measures.
"""
