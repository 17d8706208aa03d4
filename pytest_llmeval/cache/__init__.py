"""Replies that were paid for: by request key and slot, durable, never unpickled."""
