"""The scheduling engine: one cluster at one instant in, decisions out. Pure; imports numpy and the
hardware catalogue and nothing else, reads no clock, and writes nothing down.

Read it in this order:

    snapshot, jobs, policy     what goes in
    plan                       what comes out: decisions, and the reasons of those that wait
    cycle                      the order of the steps
    claims, memory             what jobs ask for, told apart; what the next cycle need not find anew
    desk                       what is decided and what is left while a cycle goes on, made of
        fleet, ledger          nodes and devices; what of them is free
        quota, share, charge   who may use how much, and who has more than his share
        horizon, promises      what will be free later; what is promised to others
    order                      who is looked at first
    access, placing            whether and where a job starts now, with
        fit, locality          how many members a node holds; which domains take them
        gang, devices, quality members on nodes and devices; how close they are
    reserve                    when a blocked job starts at the latest
    preemption                 whom to stop for it
    growing, layouts           elastic gangs; MIG boards to cut anew
    dependencies, diagnosis    why a job does not start
    explain, consolidate       what would let it start
    invariants                 the rules, as code, with
        seat_rules, entitlement those of places, and of quota and rights
    codec, scenario            snapshots and plans as JSON and as text
"""
