"""Pictures of bytes on their way: frames, the stages of a broker, and from a file to a socket."""
