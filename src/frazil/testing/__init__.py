"""What tests of Frazil, and of programs that use it, can rest on."""
