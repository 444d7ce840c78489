"""The sections of the settings, each with what it allows; ``rota.config`` puts them together.

agent, gpus          the agents; what is measured of GPUs
limits, quotas       what one user may ask; where quotas come from
storage, audit       what is kept of users' work; who did what
notify, pilots       who is told; machines that engines are asked for
checks               what a value must be like
"""
