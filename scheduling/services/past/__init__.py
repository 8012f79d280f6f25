"""The demo's past: thirty days of a public trace as Muster's simulator replayed them.

`making` makes it of the trace, once, into the file that `course` reads and writes; `loading` writes
its rows into the demo's database, before the days that `scheduling.services.demo` feeds.
"""
