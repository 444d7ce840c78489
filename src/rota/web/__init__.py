"""The web page: what people look at, served at ``/`` by the process that serves the API.

Pages are frames made by Jinja2; modules of our own in ``static`` fill them. What these read and
change goes over the same REST routes as the command line, beside a few compact feeds for what has
thousands of rows. Nothing is asked of any other host.

    door                 which paths are the page's; all else is loaded when first asked for
    serving              from a path to what answers it
    views/               a module per page: its frame and its feeds
    terminal             the terminal of a job in a page
    screen               a program of its own: draws what one viewer of a terminal sees
    live                 what changed, told to every open page (server-sent events)
    routes               the REST route that makes a link for `rota web`
    entry                signing in and out, links that are good once
    room                 what is kept for one app: its links, its open pages
    advised              the command that an advice names, as the REST call that makes it
    frames               templates and files
    answers              what goes back over ASGI, with the headers that keep a page safe
"""
