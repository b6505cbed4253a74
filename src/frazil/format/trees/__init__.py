"""Decoded files of the generations before V1 as trees of lists, maps and plain values.

The draft (JSON) and the alphas (MessagePack) come from the same Rust types through the same
serialiser, so one description of nodes, history and chunk payloads serves both; a `TreeForm` says
what differs.
"""
