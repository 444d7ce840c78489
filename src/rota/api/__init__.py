"""The REST interface, the agents' WebSocket, gRPC and the process that serves them.

The process
    process, server, certificate     lock, store, host, sockets, TLS, a clean end
    front, auth, short_way           the way in: who asks, and the few busy routes
    app, context, errors             all other routes, what they work with, refusals as documents
    agents                           the agents' WebSocket
    grpc/, openapi/                  the typed twin; the document that describes the routes
From a request to what the controller takes
    requests, gang_requests, health_requests, site_requests, request_fields, params    what is sent
    checks, placing, roles           whether it can be so, and what it means
    submit, submission, repeated_submits, resubmit    jobs that are submitted, also again
Jobs
    jobs, listing, lookup, views, attempt_views, checkpoint_views, times, reasons    found and shown
    changes, changes_many            cancelled, held, updated, tried again
    logs, log_search, results, artifacts, bundles, checkpoints    what they print, leave and bring
    visits, attach, forward, endpoints    going into them
    why, plan, measures              what they wait for, would become and cost
The site
    nodes, pools, allocations, reservations    machines and who has them
    queues, queue_stats, quotas, accounts, tokens, usage, policy, policy_replay    rules and shares
    status, stats, tally, metrics, collectors, live, notify, pages    how it fares, and who hears
"""
