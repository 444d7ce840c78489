"""The simulator: recorded workloads through the scheduling core on a virtual clock.

What is played
readers/                 traces in the formats that sites have, and the machines to play them on
trace, entries           a recorded job, and how orderings see it
lengths, past_runs       how long a job runs when it is played, and how long it really ran
cut                      a part of a trace, or the same under more load
history                  what this installation recorded, as a workload
machine, settings        on what it is played, and what is agreed before

How it is played
simulate                 policies over a trace, each by what can play it
policies                 which rules a name stands for
cluster/                 the whole core: nodes, devices, accounts, preemption
pool/                    one line and one number of free processors
pool_run, ranked_run     a log through a pool; and where jobs give way at any moment
placing                  jobs that come and stay: where they are put
replay                   a recorded log made again and compared, pass by pass

What comes of it
run, measures, figures   what a run meant for each job, and in sum
catalogue, compare       what figures are called; runs side by side
foresight                what jobs would have been told of their starts
trial, verdict           one past under two sets of rules, and what that means in a sentence
bootstrap                how sure a mean is
writers, report/         tables and summaries; one HTML file
"""
