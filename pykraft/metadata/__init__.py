"""The cluster as the metadata log describes it: immutable images, and the deltas between them."""
