"""Numbers, tables and curves as text and HTML."""
