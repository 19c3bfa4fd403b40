"""What every picture is made of: SVG text, colours, axes, and the Figure that a notebook shows."""
