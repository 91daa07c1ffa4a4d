"""What a client and a server that watches paths itself say to each other."""
