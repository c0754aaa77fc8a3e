"""The storage of artifacts' objects, and the signed URLs for uploads."""
