"""Bytes by name, durable, on diskcache."""
