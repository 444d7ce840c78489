"""``scontrol`` and ``scancel``.

scontrol, scontrol_update, job_words, scontrol_site, scontrol_token    what changes
scontrol_show, show_job, show_site, show_config    what is shown
scontrol_words                   what is told or waited for
scancel                          ends and signals
"""
