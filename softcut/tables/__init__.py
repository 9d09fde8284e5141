"""Tables in memory: what their columns hold, and columns as ids, edges and features; read by graph/ and io/."""
