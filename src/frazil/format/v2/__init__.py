"""V1 and V2, the FlatBuffers generations.

They share one schema. V2 added fields, and moved the parents of snapshots, the refs and the
configuration into the repo info. Each file is decoded by the version in its own header, because a
migrated repository keeps its V1 files.
"""
