"""Programs that speak to the API over the wire.

For programs that submit functions
cluster      connections: submit, map, launch, plan; what opens one
local        a Rota of the program's own
options      how submit and map are called; cluster.options() and @rota.job
handle       what stands for a job: a future; gather, as_completed, wait
verbs        questions about jobs and nodes, orders to them
ids          which job of which cluster is meant
status       a job, a node, a why and a plan at one moment; ends without a result
aio          all of that for programs with an event loop
builder      commands put together step by step
executors    the standard library's Executor: a job per call, workers that stay
notebook     how jobs look in notebooks; a bar over many
ports        programs written for submitit and Ray

How a call becomes a job
asking       options and keywords into the words of a request
calls        function and arguments as bytes; handles among them
making       the requests of one connection
members      how many tasks a request asks for
ends, watcher            which jobs are waited for; the open line that tells of their ends

Inside a job
runner       runs the function that was sent
outcomes     what it returned or raised, as a file; how long those are kept
context      who am I, checkpoints, progress
reports      how far it is, as lines in a file; also what ``rota progress`` writes

For every client
http, wire               the REST API over one kept connection, of the head that leads
errors       what can go wrong, each fit for one line
"""
