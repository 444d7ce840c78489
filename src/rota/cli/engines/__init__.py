"""Commands about engines that a site already has; the processes behind them are in ``service``.

engine     Slurm, Kubernetes or Ray as nodes of Rota
pilot      allocations of such engines
"""
