"""Commands about the service on this machine, and for its admin.

service, service_options, down   ``rota up``, ``down``, ``status``, ``agent``
serve, supervise, logbook        the processes behind them
engines, pilots                  the processes of engines that a site already has, and of pilots
pretend                          made-up nodes in place of this machine
install, units                   ``rota service``: units of systemd, for head and agents
backup, archive                  ``rota backup``, ``restore``, ``archive``
login                            ``rota login``, ``logout``: which Rota is spoken to
state_folder, stop_jobs          who works in the state folder; an end of all that runs
doctor, token, notify, slurm     what is wrong; credentials; notices; the commands of Slurm
secret, audit                    values that only jobs see; who did what
mcp, mcp_tools                   Rota for agents, by the Model Context Protocol
"""
