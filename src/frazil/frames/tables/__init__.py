"""Tables about a repository: its versions, its nodes, its chunks, what changed and what it takes.

Small ones are made when they are opened. Those with a row for each chunk, or that have to look at each,
are read by tasks, from manifests that are planned by how many references they have.
"""
