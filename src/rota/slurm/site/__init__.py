"""A site of Slurm, turned into one of Rota.

site_import                      its files are read
site_plan                        files for Rota are written
"""
