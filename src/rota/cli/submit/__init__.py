"""From options, scripts and surroundings to the body of a submit.

submit                           ``rota submit``
submit_options, placing_options, role_option    the options of ``submit`` and ``run``
script_lines, new                options inside of scripts, and a script to start from
work, surroundings, bundle       what a job runs, inherits and brings
sweep, request                   one row per job; the body itself
"""
