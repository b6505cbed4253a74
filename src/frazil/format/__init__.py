"""Every file of every generation of the Icechunk format, as pure code.

Bytes become values and values bytes; nothing here opens a file, asks a clock or rolls dice. The model
(`snapshot`, `manifest`, `chunks`, `transaction_log`, `repo_info`) is one for all generations; a
generation is a codec to and from it (`v2` for V1 and V2, `alpha`, `draft`). `files` puts them
together: it tells what a file is and reads it, and writes it back in the same dialect.
"""
