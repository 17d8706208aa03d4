"""HTTP requests to models: sent, replayed, classified."""
