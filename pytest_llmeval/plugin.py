"""The hooks: what pytest asks, and who answers."""
