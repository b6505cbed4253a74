"""What survives when processes race, are killed, or write behind each other's back."""
