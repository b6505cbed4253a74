"""From the draft and the alphas to V2: all metadata is written anew, under new names.

Nothing of the old repository is changed before the new one is there. Every new name follows from what
it stands for, so that a migration that was broken off and starts again writes the same files.
"""
