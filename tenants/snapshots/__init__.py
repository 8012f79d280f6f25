"""Rows, read once and then asked in memory: what is promised when, and who may borrow from whom."""

from tenants.snapshots.calendar import Calendar, Promise, read_calendar, read_calendars
from tenants.snapshots.tree import Tree, TreeCohort, TreeQuota, TreeTenant, read_tree

__all__ = [
    "Calendar",
    "Promise",
    "Tree",
    "TreeCohort",
    "TreeQuota",
    "TreeTenant",
    "read_calendar",
    "read_calendars",
    "read_tree",
]
