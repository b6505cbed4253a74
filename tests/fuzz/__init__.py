"""Damaged and hostile files: whatever is in them, decoding gives a value or a FormatError."""
