"""The one-command set-up: PostgreSQL, Valkey and every process of the portal under one supervisor.

Imports the standard library and nothing of ours, so that it starts before anything else can.
"""
