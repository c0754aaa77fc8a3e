"""Where the objects of artifacts are kept, and the signed URLs by which they come."""
