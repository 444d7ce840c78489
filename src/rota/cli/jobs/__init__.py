"""Commands about jobs.

run, redo, plan                  submitted and followed, again, or only tried
queue, folding, show, far, logs, sweep_logs    listed, looked at, read
wait, follow, bell               until they have ended, also when Ctrl-C comes
attach, inside, forward, wires    going into them
change, update, group, checkpoint    changed
progress                         what a job says from inside
"""
