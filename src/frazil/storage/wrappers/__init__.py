"""Storages over other storages: counted, slowed, faulty, closed to writers, moved to a folder."""
