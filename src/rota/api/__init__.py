"""The REST interface, the agents' WebSocket, gRPC and the process that serves them.

Each room knows only those below it.

    process, plan                    lock, store, host, sockets, a clean end; the settings
    heads/                           several controllers: who leads, who waits, what they share
    grpc/                            the typed twin of REST
    app, pages                       every route; what anybody may read
    aliases                          routes that clients of other schedulers know
    openapi/                         the document that describes the routes
    door/                            the way in: the front door, the server, the agents' WebSocket
    left/                            routes: what tasks leave on their nodes, and say of themselves
    jobs/, site/, visits/            routes: about jobs, about the site, into running jobs
    watch/                           routes: how it fares, and who hears
    params, context, collectors      what every route works with
    views/                           jobs found and shown
    bodies/                          from a request to what the controller takes
    errors, auth, people             refusals; who asks; users of this machine
    gate, turns, asgi                how often somebody asks; in turns; the words of ASGI
    questions                        those that take trials: in turns, and aside on a large site
    rounds, leaving, unread          nobody has the loop for long; who hung up; who takes no answers
"""
