"""How many GPUs a placement policy hands out before fragmentation stops it.

Tasks arrive one by one until a cluster was asked for more than it has; each is placed at once or
lost, and none leaves. Fragmentation is what the usual mix of tasks could not use of what is free.
"""
