"""``scontrol`` and ``scancel``.

scontrol, scontrol_update, scontrol_site, scontrol_token    what changes
scontrol_show, show_job, show_site, show_config    what is shown
scancel                          ends and signals
"""
