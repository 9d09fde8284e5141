"""The local page: a web server, its jobs, and what one job does."""
