"""Where objects are kept: verbs of one interface, served by memory, a disk, or an object store."""
