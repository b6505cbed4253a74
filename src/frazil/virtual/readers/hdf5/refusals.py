"""What can't be read, and what can't be referred to."""


class RefusedError(Exception):
    """A dataset that Zarr has no word for; its text is the reason."""


class NotReadable(Exception):  # noqa: N818 - no mistake of anybody, but work for another reader
    """Something that this reader has not learnt yet."""
