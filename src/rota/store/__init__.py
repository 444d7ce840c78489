"""Durable state: one transaction per tick, on SQLite or PostgreSQL.

What the controller sees
api, errors              what it needs of a store, and what a store may raise
open                     a store from a URL or a path
memory, disk             one for tests and worlds, with faults on demand
readonly, frozen         one that is only read, and one moment of a PostgreSQL
writer                   how asyncio code commits

On a database
sql, statements, listing  the store itself, its statements, the query behind a list of jobs
rows, packing, outcomes   structs as rows; old rows packed; ends by pages of ids
stats                    sums over a period, by the database
driver, sqlite, postgres  what is asked of a database, and the two that there are
patience, heads          a server that stands still; several controllers on one PostgreSQL
schema, migrations/      the tables, and the way there from older ones
log/                     events: new ones in rows, old ones on pages
heap                     how much is loaded at once

What goes, and what is kept elsewhere
forget/, unused          old jobs, old events; scripts that nothing refers to
archive/                 finished jobs in columnar files
copying                  a whole database as a file, and back
"""
