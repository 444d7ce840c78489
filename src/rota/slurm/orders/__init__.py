"""What the options of sbatch, salloc and srun ask for.

options, orders                  every option; what they ask for, checked
batch_script, export_file        options and environment from files
shapes, dependencies, mail       single options in Rota's words
surroundings                     what a job finds in its environment
detail                           what Slurm knows of a job and Rota's model does not
"""
