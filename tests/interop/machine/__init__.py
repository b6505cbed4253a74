"""One random program, run by Frazil and by the official library: side by side, and taking turns."""
