"""A page to watch a stream in a browser while it runs.

live_state.py    what the page shows: spikes, accuracy, speed, memory
serve.py         a small server for it
live.html.j2, live.css, live.js    the page; its colours and theme button are those of lab/report/templates
"""
