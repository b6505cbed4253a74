"""What is known of the values of chunks: how it is found, kept beside them, and used to skip chunks.

Statistics are of values as the table of cells shows them: decoded, with nulls where values are masked,
NaN or NaT. They are ordinary arrays of the shape of the array's grid of chunks, in the group
`/_frazil/statistics` followed by the path of the array, and committed like any other.

What is kept of a chunk counts as long as its fingerprint is that of the chunk as it is in the version
that is read, and the digest of the array is that of the array there. Anything else is not looked at.
"""
