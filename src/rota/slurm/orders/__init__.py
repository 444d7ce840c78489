"""What the options of sbatch, salloc and srun ask for.

row, readers                     what is known of an option; how its value is read
rows, step_rows, later_rows      every option, one row each
options, orders                  the tables of the commands; what they ask for, checked
page                             the table for people
batch_script, export_file        options and environment from files
caller_files                     other files that options name
shapes, dependencies, features, mail    single options in Rota's words
surroundings                     what a job finds in its environment
detail                           what Slurm knows of a job and Rota's model does not
"""
