"""Encode and decode every file of every generation of the Icechunk format. Pure.

No code here opens a file, reads a clock or draws random numbers. The model (`snapshot`, `manifest`,
`repo_info`) is shared by all generations; a generation is a codec
for it (`v2` for V1 and V2, `alpha`, `draft`). `files` combines them: it detects the
generation of a file, decodes it, and encodes it in the same dialect.
"""
