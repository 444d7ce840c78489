"""Wrong versions of the scheduling's code, to see whether the tests notice: ``script/mutate``.

operators    every small change that makes a program wrong, found in a module's syntax tree
sources      serves changed source to the import system, for a mutant or to see what a test runs
reach        which test runs which part of the scheduling; kept until a file changes
killers      which tests noticed mutants before: these are tried first
trial        the tests against one mutant, in a process of its own
verdicts     survivors that a person judged equivalent, in tests/mutants.toml
"""
