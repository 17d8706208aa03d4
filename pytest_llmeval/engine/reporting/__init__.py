"""Reports of cases and of the gate, as pytest and other plugins read them."""
